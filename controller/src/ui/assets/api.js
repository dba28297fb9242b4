// Requests to the server of this page. The key is kept for this tab only and travels in a header, never in an address.

const SLOT = "vela-key";

export const key = {
  get: () => sessionStorage.getItem(SLOT) || "",
  set: (value) => sessionStorage.setItem(SLOT, value),
  forget: () => sessionStorage.removeItem(SLOT),
};

/** An answer that is no result. */
export class Failure extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The answer to a GET below `/api`. */
export async function get(...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  const address = "/api/" + parts.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
  let answer;
  try {
    answer = await fetch(address, {
      headers: { Authorization: "Bearer " + key.get() }, credentials: "omit", cache: "no-store", redirect: "error",
    });
  } catch {
    throw new Failure(0, "The server does not answer.");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Failure(answer.status, body.message || answer.statusText || "failed");
  return body;
}
