import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { beingDeleted } from '../live/deletion.ts'
import type { LiveObject } from '../live/live-object.ts'
import { outsideReach } from '../manifests/scope.ts'
import type { EntryState, InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { FailedCommit } from './failed-commit.ts'

/**
 * Reasons for which an object that has left its source stays, each with the state of its entry in the inventory.
 * `planPrune` sets the last four, for objects that are deleted with a namespace or a definition. The others are about
 * one object each. apply/replacement.ts has the rules for objects that are deleted to be made again.
 */
const states = {
  /** the previous leader may have sent its apply */
  onItsWay: 'planned',
  unreadable: 'failed',
  detached: 'detached',
  outOfReach: 'detached',
  sourceKept: 'detached',
  newOwner: 'waits',
  neverPrune: 'waits',
  unproven: 'waits',
  ownerChanged: 'failed',
  uidChanged: 'failed',
  controlled: 'failed',
  beingDeleted: 'failed',
  commitFailed: 'waits',
  sourceUnread: 'waits',
  partialChart: 'waits',
  pruneOff: 'waits',
  /** for a ConfigMap or a Secret */
  rolloutRuns: 'waits',
  /** another tool would run it as a hook; an earlier version of agentk has made it */
  hookNotRun: 'waits',
  /** for an object that is deleted with a namespace or a definition */
  parentUndecided: 'waits',
  /** for a namespace or a definition */
  childStays: 'waits',
  dependentsNotListed: 'failed',
  /** agentk may not list them */
  dependentsForbidden: 'waits',
} as const satisfies Record<string, EntryState>

export type BlockCode = keyof typeof states

/** Reason for which an object that has left its source stays. */
export interface Blocked {
  readonly code: BlockCode
  /** for people */
  readonly text: string
  /** set if it is decided again: once all other sources have claimed what they want, or after a while */
  readonly until?: 'othersKnown' | 'rolloutOver'
}

export type PruneOptions = Pick<
  SourceOptions,
  | 'id'
  | 'manager'
  | 'adopt'
  | 'onRemoval'
  | 'dryRunStrategy'
  | 'prune'
  | 'pruneConfirm'
  | 'pruneLimit'
  | 'namespaces'
  | 'resourceInclusions'
  | 'resourceExclusions'
>

/** Facts for blockers, beside the object. */
export interface PruneContext {
  readonly options: PruneOptions
  /** calls of the previous leader may still arrive */
  readonly mayHaveCallsInFlight: boolean
  /** the source has left the configuration */
  readonly isRemoval: boolean
  /** undefined: the commit is applied completely */
  readonly failed: FailedCommit | undefined
  /** a chart was rendered while some kinds were unknown: it may want more objects */
  readonly isChartPartial: boolean
  /** the commit has it as a hook that agentk does not run */
  readonly isHook: (key: ObjectKey) => boolean
  /** id of another source of this agent that wants it; undefined: none */
  readonly newOwner: (key: ObjectKey) => string | undefined
  /** reason for which that is not known yet; undefined: it is known */
  readonly unread: (key: ObjectKey) => string | undefined
  /** reason for which Pods of an earlier commit need it; absent: not checked */
  readonly inUse?: (key: ObjectKey) => string | undefined
}

type Blocker = (entry: InventoryEntry, live: LiveObject, context: PruneContext) => Blocked | undefined

/** Field manager of all that the stock agent applies. */
const stockManager = 'agentk'

/** For an object that does not exist. */
const onItsWay = ({ uid }: InventoryEntry, { mayHaveCallsInFlight }: PruneContext) =>
  block(uid === '' && mayHaveCallsInFlight, 'onItsWay', 'it has not been made, and may be on its way')

const detached: Blocker = ({ state, reason }) => block(state === 'detached', 'detached', reason)

/** A later configuration excludes the object from its source. */
const outOfReach: Blocker = ({ key }, _, { options }) => {
  const outside = outsideReach(key, options)
  return outside === undefined ? undefined : { code: 'outOfReach', text: outside }
}

const sourceKept: Blocker = (_, __, { isRemoval, options: { onRemoval, dryRunStrategy } }) =>
  block(
    isRemoval && (onRemoval === 'keep' || dryRunStrategy !== 'none'),
    'sourceKept',
    'its source has left the configuration',
  )

const newOwner: Blocker = ({ key }, _, context) => {
  const owner = context.newOwner(key)
  return owner === undefined ? undefined : { code: 'newOwner', text: `source ${owner} wants it` }
}

const neverPrune: Blocker = (_, { prune }) =>
  block(prune === 'never', 'neverPrune', 'its annotations say never to delete it')

const hookNotRun: Blocker = ({ key }, _, { isHook }) =>
  block(isHook(key), 'hookNotRun', 'it is a hook that is not run here')

/** An entry without a uid is no proof: others may write marks. An apply by this source or the stock agent is. */
const unproven: Blocker = ({ uid }, { managers, owner }, { options: { manager } }) => {
  const isApplied = managers.some((name) => [manager, stockManager, `agentk-${owner}`].includes(name))
  return block(uid === '' && !isApplied, 'unproven', 'nothing shows that it was applied')
}

const ownerChanged: Blocker = (_, { owner }) =>
  block(owner === '', 'ownerChanged', 'its owner annotation is missing: somebody may have taken it')

const uidChanged: Blocker = ({ uid }, live) =>
  block(uid !== '' && uid !== live.uid, 'uidChanged', 'another object has its name by now')

const controlled: Blocker = (_, { isControlled }) => block(isControlled, 'controlled', 'a controller keeps it')

const isGoing: Blocker = (_, { isBeingDeleted, holds }) => block(isBeingDeleted, 'beingDeleted', beingDeleted(holds))

/** Before the commit is applied, only objects that prevent the rest of it are deleted. */
const commitFailed: Blocker = ({ key }, _, { failed }) =>
  block(failed !== undefined && failed.neededBy(key) === undefined, 'commitFailed', 'part of the commit is not applied')

const sourceUnread: Blocker = ({ key }, _, { unread }) => {
  const reason = unread(key)
  return reason === undefined ? undefined : { code: 'sourceUnread', text: reason, until: 'othersKnown' }
}

const partialChart: Blocker = (_, __, { isChartPartial }) =>
  isChartPartial
    ? { code: 'partialChart', text: 'the chart may want it, of kinds that are not known now', until: 'othersKnown' }
    : undefined

const pruneOff: Blocker = (_, __, { options: { prune } }) => block(!prune, 'pruneOff', 'prune: false')

const rolloutRuns: Blocker = ({ key }, _, { inUse }) => {
  const reason = inUse?.(key)
  return reason === undefined ? undefined : { code: 'rolloutRuns', text: reason, until: 'rolloutOver' }
}

/** Blockers in order; the first with a reason decides. */
const blockers: readonly Blocker[] = [
  detached,
  outOfReach,
  sourceKept,
  newOwner,
  neverPrune,
  hookNotRun,
  unproven,
  ownerChanged,
  uidChanged,
  controlled,
  isGoing,
  commitFailed,
  sourceUnread,
  partialChart,
  pruneOff,
  rolloutRuns,
]

/** @param live - undefined: it does not exist; null: it cannot be read now */
export function blockedBy(
  entry: InventoryEntry,
  live: LiveObject | null | undefined,
  context: PruneContext,
): Blocked | undefined {
  if (live === undefined) return onItsWay(entry, context)
  if (live === null) return { code: 'unreadable', text: 'it cannot be read now' }
  for (const blocker of blockers) {
    const blocked = blocker(entry, live, context)
    if (blocked) return blocked
  }
  return undefined
}

/** Returns the state that its entry in the inventory has. */
export function stateOf({ code }: Blocked): EntryState {
  return states[code]
}

function block(isBlocked: boolean, code: BlockCode, text: string): Blocked | undefined {
  return isBlocked ? { code, text } : undefined
}
