//! Why a webhook was not told, and what that means for the next try.

use http::StatusCode;
use thiserror::Error;

use super::KeyRefused;
use crate::outbound::OutboundError;

/// Why a webhook was not told.
#[derive(Debug, Error)]
pub(crate) enum TellError {
    /// This node lacks what it takes.
    #[error("{0}")]
    Files(String),
    /// Its secret is none.
    #[error("{0}")]
    Key(#[from] KeyRefused),
    /// It was not reached.
    #[error("{0}")]
    Outbound(#[from] OutboundError),
    /// It answered otherwise than with success.
    #[error("it answered with status {0}")]
    Status(StatusCode),
    /// It answers too slowly for all that it is told.
    #[error("others were told for longer than it may wait in line")]
    Line,
    /// Our own fault.
    #[error("the message cannot be made")]
    Unmade,
}

impl TellError {
    /// Whether the message may have been taken all the same.
    pub(super) const fn may_stand(&self) -> bool {
        matches!(
            self,
            Self::Outbound(
                OutboundError::Slow { .. }
                    | OutboundError::Exchange { .. }
                    | OutboundError::Large { .. }
            )
        )
    }

    /// Whether the same may be taken later.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Status(status) => {
                let waits = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
                status.is_server_error() || waits.contains(status)
            }
            Self::Outbound(error) => !matches!(
                error,
                OutboundError::Url(_)
                    | OutboundError::Private { .. }
                    | OutboundError::NeverOpenable { .. }
                    | OutboundError::ClearText { .. }
            ),
            Self::Files(_) | Self::Key(_) | Self::Line | Self::Unmade => false,
        }
    }
}
