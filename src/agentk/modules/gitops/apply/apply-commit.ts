import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { numberAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { type ApprovedPlan, planDigest } from '../delete/approved-plan.ts'
import { Deleter } from '../delete/deleter.ts'
import type { SourceInventory } from '../inventory/source-inventory.ts'
import { isAdderOf } from '../live/adders.ts'
import { DryLanes } from '../live/dry-lanes.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { ObjectWaits } from '../live/object-waits.ts'
import type { LiveObjects } from '../live/read-live.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import { leftAloneNotes } from '../manifests/left-alone.ts'
import { type Manifest, mayHaveField } from '../manifests/manifest.ts'
import type { ApplyEnd, Build, InventoryEntry, RoundEnd, SourceClaims } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { Applier } from './applier.ts'
import { ApplyRun, type ApplyRunComponents } from './apply-run.ts'
import { passGate } from './health-gate.ts'
import { replaceObject, tryMaking } from './replacement.ts'
import { Scalers } from './scalers.ts'

export interface ApplyComponents {
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  /** acts as the source's account */
  readonly accountLane: ApiLane
  readonly waits: ObjectWaits
  readonly kinds: SharedKinds
  readonly clock: Clock
  readonly claims: Pick<SourceClaims, 'isHandedOver'>
}

export interface ApplyInput {
  readonly commit: string
  readonly build: Build
  readonly inventory: SourceInventory
  readonly approval: ApprovedPlan
  /** reads the objects of the commit from the cluster */
  readonly readLive: () => Promise<LiveObjects>
  readonly superseded: AbortSignal
  readonly judge: ApplyRunComponents['judge']
  readonly isDrifted: ApplyRunComponents['isDrifted']
  readonly onStep: (step: { kind: 'ended'; key: ObjectKey; end: ApplyEnd }) => void
}

/**
 * Applies a commit. If its replacements are approved, it applies the commit once more, with these replacements.
 *
 * @param live - as read before. @throws the connection's error, or the signal's reason
 */
export async function applyCommit(
  components: ApplyComponents,
  input: ApplyInput,
  options: SourceOptions,
  live: LiveObjects,
  signal: AbortSignal,
): Promise<AppliedEnds> {
  const { inventory, approval, commit } = input
  const first = { entries: inventory.known, live, approved: new Set<string>() }
  const applied = await applyPass(components, input, options, first, signal)
  const { digest, uids } = replacementPlan(applied.ends, { id: options.id, commit })
  if (digest === '' || digest !== approval.digest) return applied
  await approval.use(signal)
  const second = { entries: new Map(inventory.entries), live: await input.readLive(), approved: uids }
  return await applyPass(components, input, options, second, signal)
}

/** Results by object, and notes for users. */
export interface AppliedEnds {
  readonly ends: readonly RoundEnd[]
  readonly notes: readonly string[]
}

interface Found {
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly live: LiveObjects
  /** uids of objects whose deletion is approved */
  readonly approved: ReadonlySet<string>
}

async function applyPass(
  { accountLane: lane, ownLane: control, waits, clock, kinds: shared, claims: { isHandedOver } }: ApplyComponents,
  { build: { manifests, graph, kinds }, inventory, superseded, onStep, judge, isDrifted }: ApplyInput,
  options: SourceOptions,
  { entries, live, approved }: Found,
  signal: AbortSignal,
): Promise<AppliedEnds> {
  const scalers = new Scalers({ lane, ownLane: control, kinds, manifests })
  const applier = new Applier({ lane, isHandedOver, scalers }, options)
  const unscaled = await unscaledOf(manifests, live, scalers, signal)
  const isAdder = isAdderOf(options.drift)
  const isByHand = (text: string) => unscaled.has(text) && isScaledByHand(live.objects.get(text), isAdder)
  const isCorrected = options.drift.mode === 'correct' // else the mode decides on replicas, too
  const dryLanes = new DryLanes({ lane, ownLane: control })
  const deleter = new Deleter({ accountLane: lane, waits, clock, kinds }, options)
  const run = new ApplyRun(
    {
      applier,
      replace: (request, until, running) =>
        replaceObject({ lane, dryLanes, applier, deleter, approved }, request, options, until, running),
      tryMaking: (request, running) => tryMaking(request, dryLanes, options, running),
      pass: (of, running) =>
        passGate({ waits, lane: control, clock }, of, { timeoutMs: options.reconcileTimeoutMs }, running),
      lane,
      kindsWith: (key, version, isDefined) => shared.with(key, version, isDefined, signal),
      judge,
      isDrifted: (text) => isDrifted(text) || isByHand(text) || (!isCorrected && unscaled.has(text)),
      onEnd: (key, end) => onStep({ kind: 'ended', key, end }),
      remember: (manifest, end) => {
        inventory.applied(manifest, end)
        return inventory.save(signal)
      },
    },
    {
      id: options.id,
      manifests,
      graph,
      kinds,
      entries,
      live: live.objects,
      superseded,
      ...(isCorrected && { unscaled }),
    },
    signal,
  )
  const ends = await run.run()
  const found = manifests.map((manifest) => {
    const end = ends.get(keyText(manifest.key)) ?? { kind: 'left' as const }
    inventory.applied(manifest, end)
    return { manifest, end }
  })
  return { ends: found, notes: [...scalers.notes, ...leftAloneNotes(manifests, live.objects), ...undoneNotes(found)] }
}

/** Limit of notes about undone changes. */
const maxUndone = 10

/** Returns notes about changes by hand that were undone, since they prevented an apply. */
function undoneNotes(ends: readonly RoundEnd[]): string[] {
  const notes = ends.flatMap(({ manifest, end }) => {
    const { by, fields } = (end.kind === 'applied' && end.undone) || { by: [], fields: [] }
    const names = fields.join(', ')
    return by.length > 0
      ? [`${keyName(manifest.key)}: ${by.join(', ')} had changed ${names}: it is as in Git again`]
      : []
  })
  const more = notes.length - maxUndone
  return more > 0 ? [...notes.slice(0, maxUndone), `and ${more} more that were changed by hand`] : notes
}

/** @returns by `keyText`: objects whose autoscaler is removed, so that the manifest's replicas count again */
async function unscaledOf(
  manifests: readonly Manifest[],
  live: LiveObjects,
  scalers: Scalers,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const unscaled = new Set<string>()
  for (const manifest of manifests) {
    const { key } = manifest
    const found = live.objects.get(keyText(key))
    if (!found || found.fields === '' || found.ownsReplicas || found.leavesReplicas) continue
    const field = found.replicasPath.slice(found.replicasPath.lastIndexOf('.') + 1)
    if (!mayHaveField(manifest, field) || numberAt(manifest.object, found.replicasPath) === undefined) continue
    if ((await scalers.of(key, signal)) === 'no') unscaled.add(keyText(key))
  }
  return unscaled
}

/** True if a person has set the number of replicas: drift says when it is set back. Autoscalers use `scale`. */
function isScaledByHand(live: LiveObject | null | undefined, isAdder: (manager: string) => boolean): boolean {
  return live?.replicasOwners?.some(({ manager, isScale }) => !isScale || isAdder(manager)) ?? false
}

/** Objects that wait for approval to be made again. */
interface ReplacementPlan {
  /** digest that an approval names; empty: nothing waits for one */
  readonly digest: string
  readonly ends: readonly RoundEnd[]
  readonly uids: ReadonlySet<string>
}

export function replacementPlan(all: readonly RoundEnd[], of: { id: string; commit: string }): ReplacementPlan {
  const asking = all.flatMap((one) => {
    const uid = one.end.kind === 'failed' ? one.end.problem.replaces : undefined
    return uid === undefined ? [] : [{ one, uid }]
  })
  const deletes = asking.map(({ one, uid }) => ({ key: one.manifest.key, uid }))
  const uids = new Set(deletes.map(({ uid }) => uid))
  return { digest: planDigest(of, deletes), ends: asking.map(({ one }) => one), uids }
}
