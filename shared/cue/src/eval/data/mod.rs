//! What an evaluation is made of, as plain data: ids, values, conjuncts, vertices and errors.

mod conj;
mod err;
mod id;
mod val;
mod vertex;

pub(crate) use conj::{
    AGAIN, BODY, CYCLIC, CloseNode, Conj, Data, EMBED, Env, INHERITED, INLINE, LATE, OF_BODY,
    OF_DEF, OPTIONAL, Opening, PART, Refs, Req, Src,
};
pub(crate) use err::{Err, Msg};
pub(crate) use id::{CloseId, DataId, EnvId, ErrId, RefsId, Res, Vid};
pub(crate) use val::{Func, Val, Validator};
pub(crate) use vertex::{
    Alt, ArcKind, Deep, Extra, Forward, Labels, ListRest, Mark, Mode, Occurrence, Pattern, Phase,
    Task, TaskKind, TaskState, Vertex,
};
