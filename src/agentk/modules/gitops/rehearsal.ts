import type { ApiLane } from '../../cluster/api-lanes.ts'
import { type Applied, Applier } from './apply/applier.ts'
import { type ApplyEnd, ApplyRun, type ApplyRunComponents, type RoundEnd } from './apply/apply-run.ts'
import { prunePlan } from './apply/prune-plan.ts'
import type { InventoryEntry } from './inventory/entry.ts'
import type { Inventory } from './inventory/inventory.ts'
import { type LiveObjects, readLiveObjects } from './live/read-live.ts'
import { keyText } from './manifests/object-key.ts'
import type { SourceOptions } from './source-options.ts'
import type { OtherSources } from './source-table.ts'
import type { Wanted } from './wanted.ts'

export interface RehearsalComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  readonly inventory: Pick<Inventory, 'load'>
  readonly others: OtherSources
}

/** What a commit would do. */
export interface Rehearsed {
  readonly is: 'rehearsed'
  /** `applied`: it would be */
  readonly ends: readonly RoundEnd[]
  /** what would go, now or once somebody approves */
  readonly leaving: readonly InventoryEntry[]
}

/**
 * Takes a commit through all that it would do, and writes nothing. With `server` the API server says of each object
 * whether it would take it.
 *
 * @throws the connection's error, or the signal's reason
 */
export async function rehearse(
  components: RehearsalComponents,
  commit: string,
  options: SourceOptions,
  { manifests, graph, kinds }: Wanted,
  signal: AbortSignal,
): Promise<Rehearsed> {
  const { lane, inventory } = components
  const entries = await inventory.load(signal)
  const wanted = new Set(manifests.map(({ key }) => keyText(key)))
  const fresh = manifests.filter(({ key }) => !entries.has(keyText(key))).map((manifest) => ({ ...manifest, uid: '' }))
  const live = await readLiveObjects([...entries.values(), ...fresh], { lane, kinds }, options, signal)
  const run = new ApplyRun(
    runComponents(components, kinds, options),
    { id: options.id, manifests, graph, kinds, entries, live: live.objects, superseded: new AbortController().signal },
    signal,
  )
  const ends = await run.run()
  const told = (text: string) => lateEnd(text, ends, graph.named(text))
  const left = [...entries].filter(([text]) => !wanted.has(text)).map(([, entry]) => entry)
  return {
    is: 'rehearsed',
    ends: manifests.map((manifest) => ({ manifest, end: told(keyText(manifest.key)) })),
    leaving: leavingOf(components, { commit, left, size: entries.size, live }, options, { manifests, graph, kinds }),
  }
}

function runComponents(
  { lane, others: { isHandedOver } }: RehearsalComponents,
  kinds: Wanted['kinds'],
  options: SourceOptions,
): ApplyRunComponents {
  const isAsked = options.dryRunStrategy === 'server'
  return {
    applier: isAsked ? new Applier({ lane: rehearsing(lane), isHandedOver }, options) : { apply: async () => assumed },
    replacement: { replace: async () => ({ problem: { kind: 'immutable', text: 'it would be made again' } }) },
    gate: { pass: async () => undefined },
    lane,
    kindsWith: async () => kinds,
    onEnd: () => undefined,
    remember: async () => undefined,
  }
}

/** Nothing that is written through it is kept. */
function rehearsing(lane: ApiLane): ApiLane {
  const dry = (path: string) => `${path}${path.includes('?') ? '&' : '?'}dryRun=All`
  return { json: (method, path, ...rest) => lane.json(method, method === 'GET' ? path : dry(path), ...rest) }
}

/** What the API server was not asked about. */
const assumed: Applied = {
  live: {
    uid: '',
    resourceVersion: '',
    owner: '',
    digest: '',
    fields: '',
    managers: [],
    isControlled: false,
    isBeingDeleted: false,
    prune: '',
  },
  object: {},
}

/** What needs a namespace or a definition that the commit would bring can be told once that is there. */
function lateEnd(text: string, ends: ReadonlyMap<string, ApplyEnd>, before: readonly string[]): ApplyEnd {
  const end = ends.get(text) ?? { is: 'left' as const }
  if (end.is !== 'failed' || end.problem.kind !== 'absent') return end
  const isBrought = before.some((one) => ends.get(one)?.is !== 'unchanged')
  return isBrought ? { is: 'waits', text: 'whether it would be applied can be told once what it needs is there' } : end
}

function leavingOf(
  { others }: RehearsalComponents,
  { commit, left, size, live }: { commit: string; left: readonly InventoryEntry[]; size: number; live: LiveObjects },
  options: SourceOptions,
  { manifests, kinds }: Wanted,
): readonly InventoryEntry[] {
  const { decisions } = prunePlan(
    {
      commit,
      entries: left,
      inventorySize: size,
      wantedSize: manifests.length,
      isChosenAnew: false,
      isRemoval: false,
      staying: [...manifests.map(({ key }) => key), ...others.wanted()],
      plural: (key) => kinds.find(key)?.plural,
      live: live.objects,
      appliedUids: new Set(),
      heir: others.heir,
      held: (key) => others.mayWant(key, commit),
    },
    options,
  )
  return left.filter(({ key }) => ['delete', 'confirm'].includes(decisions.get(keyText(key))?.is ?? ''))
}
