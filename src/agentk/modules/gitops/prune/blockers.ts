import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { beingDeleted } from '../live/deletion.ts'
import type { LiveObject } from '../live/live-object.ts'
import { outsideReach } from '../manifests/scope.ts'
import type { EntryState, InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { FailedCommit } from './failed-commit.ts'

/**
 * All that keeps an object which has left its source, and what its entry in the inventory is then. The last four are of
 * what goes with a namespace or a definition: `planPrune` knows of those; the others are each of one object. Of what is
 * deleted to be made again: apply/replacement.ts.
 */
const states = {
  /** the pod that led before may have sent its apply */
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
  /** of a ConfigMap or a Secret */
  rolloutRuns: 'waits',
  /** another tool would run it as a hook: an earlier version of agentk has made it */
  hookNotRun: 'waits',
  /** of what goes with a namespace, or with the definition of its kind */
  parentUndecided: 'waits',
  /** of a namespace, or the definition of a kind */
  childStays: 'waits',
  dependentsNotListed: 'failed',
  /** agentk may not list them */
  dependentsForbidden: 'waits',
} as const satisfies Record<string, EntryState>

export type BlockCode = keyof typeof states

/** Why an object that has left its source stays. */
export interface Blocked {
  readonly code: BlockCode
  /** for people */
  readonly text: string
  /** it is decided anew once all other sources have claimed what they want, or in a while */
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

/** What blockers know beside the object. */
export interface PruneContext {
  readonly options: PruneOptions
  /** what the pod that led before has sent may not have landed yet */
  readonly mayHaveCallsInFlight: boolean
  /** the source has left the configuration */
  readonly isRemoval: boolean
  /** undefined: all that the commit wants is applied */
  readonly failed: FailedCommit | undefined
  /** a chart was rendered without kinds that are not known now: it may want more */
  readonly isChartPartial: boolean
  /** the commit has it as a hook that is not run here */
  readonly isHook: (key: ObjectKey) => boolean
  /** another source of this agent that wants it */
  readonly newOwner: (key: ObjectKey) => string | undefined
  /** why it is not known yet whether there is one */
  readonly unread: (key: ObjectKey) => string | undefined
  /** what Pods of an earlier commit use: why it stays. Absent: nobody was asked */
  readonly inUse?: (key: ObjectKey) => string | undefined
}

type Blocker = (entry: InventoryEntry, live: LiveObject, context: PruneContext) => Blocked | undefined

/** Of all that the stock agent applies. */
const stockManager = 'agentk'

/** One that is not there. */
const onItsWay = ({ uid }: InventoryEntry, { mayHaveCallsInFlight }: PruneContext) =>
  block(uid === '' && mayHaveCallsInFlight, 'onItsWay', 'it has not been made, and may be on its way')

const detached: Blocker = ({ state, reason }) => block(state === 'detached', 'detached', reason)

/** A later configuration keeps its source off the object. */
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

/** An entry of which no more is known is no proof, others may write such marks: of this source, or of the stock agent. */
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

/** Only what the rest of the commit needs may go before that is applied. */
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

/** The first that speaks decides. */
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

/** @param live - undefined: it is not there; null: it cannot be read now */
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

/** What the inventory keeps of it. */
export function stateOf({ code }: Blocked): EntryState {
  return states[code]
}

function block(isBlocked: boolean, code: BlockCode, text: string): Blocked | undefined {
  return isBlocked ? { code, text } : undefined
}
