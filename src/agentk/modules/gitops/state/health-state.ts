import { create } from '@bufbuild/protobuf'
import {
  HealthCountsSchema,
  type SourceState,
  type UnhealthyObject,
  UnhealthyObjectSchema,
} from '../../../../proto/gen/gitops_states_pb.ts'
import { maxListed } from '../../../../proto/gitops/limits.ts'
import type { HealthVerdict, SourceHealthSummary } from '../health-verdict.ts'
import { keyOf } from './state-key.ts'

/** Limit of a reason, or of a text about what cannot be read. */
const maxWordLength = 150
/** Limit of a cause's text. */
const maxTextLength = 512
/** Limit of texts about what cannot be read. */
const maxUnlisted = 20

/** Returns the state with the health of the source's objects. Objects that are not healthy stand by their severity. */
export function stateOfHealth(state: SourceState, summary: SourceHealthSummary): SourceState {
  const { counts, unread, unhealthy, unlisted } = summary
  const { Healthy, Progressing, Degraded, Suspended, Missing, Unknown } = counts
  return {
    ...state,
    health: create(HealthCountsSchema, {
      healthy: Healthy,
      progressing: Progressing,
      degraded: Degraded,
      suspended: Suspended,
      missing: Missing,
      unknown: Unknown,
      unread,
    }),
    unhealthy: unhealthy.slice(0, maxListed).map(unhealthyObject),
    unlisted: unlisted.slice(0, maxUnlisted).map((text) => text.slice(0, maxWordLength)),
  }
}

function unhealthyObject({ key, version, word, cause }: HealthVerdict): UnhealthyObject {
  return create(UnhealthyObjectSchema, {
    key: keyOf({ key, version }),
    word: word.toLowerCase(),
    ...(cause && {
      culprit: keyOf({ key: cause.culprit, version: '' }),
      reason: cause.reason.slice(0, maxWordLength),
      text: cause.text.slice(0, maxTextLength),
      sinceMs: BigInt(Math.round(cause.since ?? 0)),
    }),
  })
}
