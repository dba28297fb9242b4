//! `workqueue_*`: client-go's metrics of its queues.

use std::sync::Arc;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec};
use vela_serve::metrics::{Error, QUEUE_BUCKETS, Registry};

use crate::queue::{Class, PerClass, Queue};

/// client-go names a queue, controller-runtime says once more whose it is.
const LABELS: [&str; 2] = ["name", "controller"];
/// Metrics with a class.
const CLASS_LABELS: [&str; 2] = ["controller", "class"];

/// What all queues count.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    adds: IntCounterVec,
    retries: IntCounterVec,
    waits: HistogramVec,
    delays: HistogramVec,
    attempts: HistogramVec,
}

/// The counters of one queue, resolved once.
#[derive(Debug, Clone)]
pub struct QueueMeter {
    /// `workqueue_adds_total`
    pub adds: IntCounter,
    /// `workqueue_retries_total`
    pub retries: IntCounter,
    /// `workqueue_queue_duration_seconds`
    pub waits: Histogram,
    /// `vela_queue_delay_seconds`
    pub delays: PerClass<Histogram>,
    /// `workqueue_work_duration_seconds`
    pub attempts: Histogram,
}

impl QueueMeter {
    /// A key of a class waited so long for a worker.
    pub(crate) fn waited(&self, class: Class, time: Duration) {
        self.waits.observe(time.as_secs_f64());
        self.delays.get(class).observe(time.as_secs_f64());
    }
}

/// What a queue has to do at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    /// Keys that wait, those included that will run once more.
    pub depth: usize,
    /// Keys that wait for a worker, by class.
    pub waiting: PerClass<usize>,
    /// How long the workers need for them at their present pace.
    pub backlog: Duration,
    /// For how long the attempts in flight have run, together.
    pub unfinished: Duration,
    /// For how long the oldest of them has run.
    pub longest: Duration,
}

impl QueueMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            adds: registry.int_counter_vec(
                "workqueue_adds_total",
                "Keys added to the queue.",
                &LABELS,
            )?,
            retries: registry.int_counter_vec(
                "workqueue_retries_total",
                "Keys that were requeued, after a failure or as scheduled.",
                &LABELS,
            )?,
            waits: registry.histogram_vec(
                "workqueue_queue_duration_seconds",
                "How long a key waited for a worker.",
                QUEUE_BUCKETS,
                &LABELS,
            )?,
            delays: registry.histogram_vec(
                "vela_queue_delay_seconds",
                "How long a key of a class waited for a worker.",
                QUEUE_BUCKETS,
                &CLASS_LABELS,
            )?,
            attempts: registry.histogram_vec(
                "workqueue_work_duration_seconds",
                "How long a key was worked on.",
                QUEUE_BUCKETS,
                &LABELS,
            )?,
        })
    }

    /// The counters of one controller's queue.
    #[must_use]
    pub fn of(&self, controller: &str) -> QueueMeter {
        let labels = [controller, controller];
        QueueMeter {
            adds: self.adds.with_label_values(&labels),
            retries: self.retries.with_label_values(&labels),
            waits: self.waits.with_label_values(&labels),
            delays: PerClass::of(|class| {
                self.delays.with_label_values(&[controller, class.name()])
            }),
            attempts: self.attempts.with_label_values(&labels),
        }
    }
}

/// Asks the queues what they have to do when somebody reads the metrics.
pub(super) struct Loads {
    queues: Vec<(&'static str, Arc<Queue>)>,
    depth: IntGaugeVec,
    waiting: IntGaugeVec,
    backlog: GaugeVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

impl Loads {
    pub(super) fn new(queues: Vec<(&'static str, Arc<Queue>)>) -> Result<Self, Error> {
        let seconds =
            |name: &str, help: &str| GaugeVec::new(prometheus::Opts::new(name, help), &LABELS);
        Ok(Self {
            queues,
            depth: IntGaugeVec::new(
                prometheus::Opts::new("workqueue_depth", "Keys that wait for a worker."),
                &LABELS,
            )?,
            waiting: IntGaugeVec::new(
                prometheus::Opts::new("vela_queue_depth", "Keys of a class that wait."),
                &CLASS_LABELS,
            )?,
            backlog: GaugeVec::new(
                prometheus::Opts::new(
                    "vela_backlog_seconds",
                    "How long the workers need at their present pace for the keys that wait.",
                ),
                &["controller"],
            )?,
            unfinished: seconds(
                "workqueue_unfinished_work_seconds",
                "Sum of the ages of all keys that workers handle, in seconds.",
            )?,
            longest: seconds(
                "workqueue_longest_running_processor_seconds",
                "Age of the oldest key that a worker handles, in seconds.",
            )?,
        })
    }
}

impl Collector for Loads {
    fn desc(&self) -> Vec<&Desc> {
        [
            self.depth.desc(),
            self.waiting.desc(),
            self.backlog.desc(),
            self.unfinished.desc(),
            self.longest.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (name, queue) in &self.queues {
            let labels = [*name, *name];
            let load = queue.load();
            let depth = i64::try_from(load.depth).unwrap_or(i64::MAX);
            self.depth.with_label_values(&labels).set(depth);
            for class in Class::ALL {
                let waiting = i64::try_from(*load.waiting.get(class)).unwrap_or(i64::MAX);
                self.waiting.with_label_values(&[*name, class.name()]).set(waiting);
            }
            self.backlog.with_label_values(&[*name]).set(load.backlog.as_secs_f64());
            self.unfinished.with_label_values(&labels).set(load.unfinished.as_secs_f64());
            self.longest.with_label_values(&labels).set(load.longest.as_secs_f64());
        }
        [
            self.depth.collect(),
            self.waiting.collect(),
            self.backlog.collect(),
            self.unfinished.collect(),
            self.longest.collect(),
        ]
        .concat()
    }
}
