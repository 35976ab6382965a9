import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { RateLimit } from '../../../../lib/rate-limit.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { JudgedObject, Verdict } from '../apply/verdict.ts'
import type { SharedBytes } from '../files/kept-files.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import { DryLanes } from '../live/dry-lanes.ts'
import type { WatchedList } from '../live/read-live.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { Manifest } from '../manifests/manifest.ts'
import type { AfterRound, InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { DriftWatches } from './drift-watches.ts'
import {
  type ComparedValues,
  explainObject,
  isScaled,
  leftToScaler,
  valuesOfObject,
  wouldChange,
} from './explain-object.ts'
import type { ExplainTurns } from './explain-turns.ts'
import { type ComparedManifest, KeptManifests } from './kept-manifests.ts'
import { SourceDrift, type SourceDriftComponents } from './source-drift.ts'
import { SourceScan } from './source-scan.ts'
import { SourceWatches } from './source-watches.ts'

/** Changes within this time are reported together. ms */
const reportMs = 200

/** Components that the drift of all sources shares while this pod leads. */
export interface FollowDriftComponents {
  readonly watches: DriftWatches
  readonly turns: ExplainTurns
  /** kinds that are served now */
  readonly kinds: Pick<SharedKinds, 'current'>
  /** rate of the checks of scans */
  readonly pace: Pick<RateLimit, 'take'>
  /** room for kept manifests */
  readonly room: SharedBytes
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
}

/** Access of one source to the cluster. */
export interface DriftAccess {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  /** acts as the source's account; all other requests go first */
  readonly scanLane: ApiLane
}

export interface DriftListeners {
  readonly requestRound: () => void
  readonly onChange: () => void
  /** Called for each object that is seen, with its `metadata.resourceVersion`. */
  readonly onSeen: (key: ObjectKey, of: { readonly version: string; readonly generation: number | undefined }) => void
  /** Called for each object that was read whole. */
  readonly onRead: (key: ObjectKey, object: KubernetesObject) => void
  /** Called for each object that does not exist any more. */
  readonly onLeft: (key: ObjectKey) => void
}

/** Drift of one source: watches, comparisons, and what is known. */
export interface FollowedDrift {
  readonly known: SourceDrift['known']
  readonly mode: SourceOptions['drift']['mode']
  /** kinds whose changes are noticed within a minute, each with the reason */
  readonly unwatched: readonly string[]
  /** number of the source's objects */
  readonly objects: number
  /** Compares all objects now. @returns number of those that were compared. @throws the signal's reason */
  checkAll(signal: AbortSignal): Promise<number>
  /** Compares one object, by `keyText`, with its values. @throws the connection's error, or the signal's reason */
  values(text: string, signal: AbortSignal): Promise<ComparedValues>
  /** Returns the manifest that the last round has left, by `keyText`; undefined: it is not kept. */
  manifest(text: string): Promise<ComparedManifest | undefined>
  /** @throws the connection's error, or the signal's reason */
  judge(manifest: Manifest, judged: JudgedObject, signal: AbortSignal): Promise<Verdict>
  /** As `judge`, for a round that somebody has asked for: what differs is written, in any mode, and during a hold. */
  judgeAsked(manifest: Manifest, judged: JudgedObject, signal: AbortSignal): Promise<Verdict>
  /** As `RoundInput`. */
  watch(entries: Iterable<InventoryEntry>, kinds: ClusterKinds): WatchedList | undefined
  /** A round begins to write. */
  roundBegins(): void
  /** The round has ended. @param reference - undefined: it has failed */
  roundEnds(reference: AfterRound | undefined): void
  /** No call of an earlier leader can arrive any more. */
  settled(): void
}

/** Follows the drift of one source until the signal aborts. */
export function followDrift(
  { watches, turns, pace, kinds: shared, room, clock, random, log }: FollowDriftComponents,
  { client, lane, ownLane, scanLane }: DriftAccess,
  { requestRound, onChange, onSeen, onRead, onLeft }: DriftListeners,
  options: SourceOptions,
  signal: AbortSignal,
): FollowedDrift {
  const kept = new KeptManifests(room)
  let dryLanes = new DryLanes({ lane, ownLane })
  let isDue = false
  const report = () => {
    if (isDue) return
    isDue = true
    clock.after(reportMs, () => {
      isDue = false
      if (!signal.aborted) onChange()
    })
  }
  /** Returns the kinds of the last round, or the present ones if it did not know this kind: it may be served again. */
  const kindsFor = async ({ key, version }: ComparedManifest, known: ClusterKinds, running: AbortSignal) => {
    if (known.find(key, version)) return known
    const kinds = await shared.current(running)
    if (kinds.find(key, version)) requestRound() // its end has the collection watched again
    return kinds
  }
  const explain: SourceDriftComponents['explain'] = async (manifest, { kinds, entry, isOnlyScaled }, running) => {
    const components = { lane, ownLane, dryLanes, kinds: await kindsFor(manifest, kinds, running), onRead, clock }
    if (isOnlyScaled && (await isScaled(manifest.key, components, running))) return leftToScaler
    return await explainObject({ manifest, entry }, components, options, running)
  }
  const values: SourceDriftComponents['values'] = async (manifest, { kinds: known, entry }, running) => {
    const kinds = await kindsFor(manifest, known, running)
    return await valuesOfObject({ manifest, entry }, { lane, ownLane, dryLanes, kinds, clock }, options, running)
  }
  const probe: SourceDriftComponents['wouldChange'] = (manifest, { kinds, entry }, running) =>
    wouldChange({ manifest, entry }, { dryLanes, kinds }, options, running)
  const drift = new SourceDrift(
    { turns, kept, explain, wouldChange: probe, values, requestRound, onChange: report, clock, log },
    options,
    signal,
  )
  const watching = new SourceWatches(
    {
      watches,
      client,
      lane: scanLane,
      seen: (key, object, live) => {
        drift.seen(key, object, live)
        const version = textAt(object, 'metadata.resourceVersion')
        onSeen(key, { version, generation: numberAt(object, 'metadata.generation') })
      },
      left: (key) => {
        drift.left(key)
        onLeft(key)
      },
      suspected: (key) => drift.left(key),
      seenFirst: (key, object) => drift.seenFirst(key, object),
      onUnwatched: report,
      clock,
      random,
      log,
    },
    options,
    signal,
  )
  const check = (text: string) => drift.check(text)
  const scan = new SourceScan({ check, pace, clock, random }, { periodMs: options.drift.scanMs, signal })
  signal.addEventListener('abort', () => kept.release(), { once: true })
  let isSettling = true
  let hasReference = false
  return {
    known: drift.known,
    mode: options.drift.mode,
    get unwatched() {
      return watching.unwatched
    },
    get objects() {
      return drift.objects
    },
    checkAll: (running) => drift.checkAll(running),
    values: (text, running) => drift.values(text, running),
    manifest: (text) => kept.read(text),
    judge: (manifest, judged, running) => drift.judge(manifest, judged, running),
    judgeAsked: async (manifest, judged, running) => {
      const verdict = await drift.judge(manifest, judged, running)
      const isDrift = verdict.kind === 'left' && verdict.finding.kind === 'drifted'
      return isDrift ? { kind: 'write', finding: verdict.finding } : verdict
    },
    watch: (entries, kinds) => {
      const isWatched = isSettling || options.drift.mode !== 'none'
      return isWatched && !hasReference ? watching.begin(entries, kinds) : undefined
    },
    roundBegins: () => {
      dryLanes = new DryLanes({ lane, ownLane }) // other servers may have come since
      drift.roundBegins()
    },
    roundEnds: (reference) => {
      drift.roundEnds(reference)
      if (!reference) {
        if (!hasReference) watching.stop() // their lists are lost with the round
        return
      }
      hasReference = true
      kept.keep(reference.manifests).catch((error: unknown) => {
        log.warn({ source: options.id, error }, 'Manifests cannot be kept for comparisons with the cluster')
      })
      if (isSettling || options.drift.mode !== 'none') watching.update(reference.entries.values(), reference.kinds)
      if (options.drift.mode !== 'none') scan.update(reference.entries.keys())
    },
    settled: () => {
      isSettling = false
      drift.settled()
      if (options.drift.mode === 'none') watching.stop()
    },
  }
}
