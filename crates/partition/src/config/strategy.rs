//! Sharding strategies: the words of `--fsdp`, and what a file may say about them.

use std::fmt;

use serde_json::{Value, json};

use super::error::StrategyError;
use super::{keys, value};

/// How parameters, gradients and optimizer state are spread over the devices.
///
/// Each gives the same numbers. They differ in what each device holds, and when weights are gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Everything is sharded; weights are gathered in forward and again in backward.
    #[default]
    FullShard,
    /// Everything is sharded; weights are gathered once and kept until backward is done.
    ShardGradOp,
    /// Everything is replicated: plain data parallel.
    NoShard,
    /// [`FullShard`](Self::FullShard) over one mesh axis, replicated over another.
    HybridShard,
    /// [`ShardGradOp`](Self::ShardGradOp) over one mesh axis, replicated over another.
    HybridShardZero2,
}

/// What `--fsdp` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsdpFlag {
    /// No FSDP.
    Off,
    /// FSDP, with a strategy when one is named. Without, the configuration file decides.
    On(Option<Strategy>),
}

/// What a configuration file says about the strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardingRequest {
    /// `sharding_strategy`: exactly this one.
    Strategy(Strategy),
    /// `reshard_after_forward`: any strategy that frees gathered weights after forward, or keeps them.
    ReshardAfterForward(bool),
}

impl Strategy {
    const ALL: [Self; 5] =
        [Self::FullShard, Self::ShardGradOp, Self::NoShard, Self::HybridShard, Self::HybridShardZero2];

    /// The words of all strategies, in the order of their numbers (from 1) in configuration files.
    pub const WORDS: &[&str] =
        &["full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"];

    /// Reads the value of `--fsdp`: words between blanks or commas, in any case.
    ///
    /// A boolean word alone switches FSDP on or off; an empty text is off. `auto_wrap` is accepted and
    /// adds nothing, since the configuration file says what to wrap and its default is to wrap.
    ///
    /// ```
    /// use shardwright_partition::{FsdpFlag, Strategy};
    ///
    /// let flag = Strategy::parse_fsdp_words("full_shard auto_wrap")?;
    /// assert_eq!(flag, FsdpFlag::On(Some(Strategy::FullShard)));
    /// assert_eq!(Strategy::parse_fsdp_words("true")?, FsdpFlag::On(None));
    /// # Ok::<(), shardwright_partition::StrategyError>(())
    /// ```
    ///
    /// # Errors
    /// When a word is unknown or asks for offloading, or two strategies are named.
    pub fn parse_fsdp_words(text: &str) -> Result<FsdpFlag, StrategyError> {
        if let Some(on) = value::flag_word(text) {
            return Ok(if on { FsdpFlag::On(None) } else { FsdpFlag::Off });
        }
        let mut flag = FsdpFlag::Off;
        let mut named = None;
        for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "auto_wrap" => {}
                "offload" => return Err(StrategyError::Offload),
                lower => {
                    let unknown = || StrategyError::UnknownWord { word: word.to_owned() };
                    let second = Self::from_word(lower).ok_or_else(unknown)?;
                    if let Some(first) = named.replace(second)
                        && first != second
                    {
                        return Err(StrategyError::TwoStrategies { first, second });
                    }
                }
            }
            flag = FsdpFlag::On(named);
        }
        Ok(flag)
    }

    /// The word for `--fsdp`.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Whether gathered weights are freed after forward and gathered again in backward.
    pub fn reshards_after_forward(self) -> bool {
        matches!(self, Self::FullShard | Self::HybridShard)
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.word() == word)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl ShardingRequest {
    /// The strategy this stands for when nothing else is said.
    pub fn strategy(self) -> Strategy {
        match self {
            Self::Strategy(strategy) => strategy,
            Self::ReshardAfterForward(true) => Strategy::FullShard,
            Self::ReshardAfterForward(false) => Strategy::ShardGradOp,
        }
    }

    /// Whether `strategy` does what this asks for.
    pub fn allows(self, strategy: Strategy) -> bool {
        match self {
            Self::Strategy(asked) => asked == strategy,
            Self::ReshardAfterForward(reshard) => reshard == strategy.reshards_after_forward(),
        }
    }

    /// The key and value that say this in a file.
    pub(super) fn entry(self) -> (&'static str, Value) {
        match self {
            Self::Strategy(strategy) => {
                (keys::SHARDING_STRATEGY, json!(strategy.word().to_ascii_uppercase()))
            }
            Self::ReshardAfterForward(reshard) => (keys::RESHARD_AFTER_FORWARD, json!(reshard)),
        }
    }
}

impl fmt::Display for ShardingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = self.entry();
        write!(f, "{key} is {value}")
    }
}
