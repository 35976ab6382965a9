import { keyText } from '../../../../kubernetes/key.ts'
import type { RoundEnd } from '../apply/apply-run.ts'
import type { Build } from '../build.ts'
import type { LiveObjects } from '../live/read-live.ts'
import type { SourceInventory } from '../source-inventory.ts'
import type { SourceClaims } from '../source-registry.ts'
import type { FailedCommit } from './failed-commit.ts'
import type { PruneInput } from './prune-plan.ts'

/** What is known of a commit once it is applied. */
export interface AppliedCommit {
  readonly commit: string
  /** the source has left the configuration */
  readonly isRemoval: boolean
  readonly mayHaveCallsInFlight: boolean
  readonly build: Build
  readonly inventory: SourceInventory
  readonly live: LiveObjects
  readonly ends: readonly RoundEnd[]
  /** undefined: all of it is applied */
  readonly failed: FailedCommit | undefined
}

/** What a plan is made of: all that has left the source, and what others want. */
export function pruneInput(applied: AppliedCommit, claims: SourceClaims): PruneInput {
  const { commit, isRemoval, mayHaveCallsInFlight, build, inventory, live, ends, failed } = applied
  const wanted = new Set(build.manifests.map(({ key }) => keyText(key)))
  return {
    commit,
    isRemoval,
    mayHaveCallsInFlight,
    failed,
    entries: [...inventory.known.values()].filter(({ key }) => !wanted.has(keyText(key))),
    inventorySize: inventory.known.size,
    wantedSize: wanted.size,
    wanted: [...build.manifests.map(({ key }) => key), ...claims.wanted()],
    isChosenAnew: inventory.isChosenAnew,
    isChartPartial: build.isPartial,
    isHook: (key) => build.hooks.has(keyText(key)),
    plural: (key) => build.kinds.find(key)?.plural,
    live: live.objects,
    appliedUids: new Set(ends.flatMap(({ end }) => ('live' in end && end.live ? [end.live.uid] : []))),
    newOwner: claims.newOwner,
    unread: (key) => claims.unknownClaim(key, commit),
  }
}
