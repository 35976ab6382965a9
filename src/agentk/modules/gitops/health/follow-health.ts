import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { SourceHealthSummary } from '../health-verdict.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { Manifest } from '../manifests/manifest.ts'
import { runsOnce } from '../manifests/run-once.ts'
import type { AfterRound } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { HealthRules } from './health-rules.ts'
import type { JudgeTurns } from './judge-turns.ts'
import { NamespaceHealth } from './namespace-health.ts'
import type { RelatedNamespaces } from './related-namespaces.ts'
import { SourceHealth } from './source-health.ts'

/** Changes within this time are reported together. ms */
const reportMs = 200
/** Objects that are not watched are read again after this. ms */
const refreshMs = 60_000

/** Components that the health of all sources shares while this pod leads. */
export interface FollowHealthComponents {
  readonly namespaces: RelatedNamespaces
  readonly turns: JudgeTurns
  readonly rules: HealthRules
  readonly kinds: SharedKinds
  /** by the API server */
  readonly clock: Clock
  readonly log: Logger
}

/** Access of one source to the cluster, as its account. */
export interface HealthAccess {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  /** all other requests go first */
  readonly scanLane: ApiLane
}

/** Health of one source. */
export interface FollowedHealth {
  readonly summary: SourceHealthSummary
  /** A round for a new commit begins: no object counts until it has come to it. */
  roundBegins(): void
  /** The round has come to an object. @param isWritten - it has applied it */
  stepEnded(key: ObjectKey, isWritten: boolean): void
  /** A round has ended, and has left the objects like this. @param after - undefined: it has failed */
  roundEnds(after: AfterRound | undefined): void
  seen(key: ObjectKey, version: string): void
  left(key: ObjectKey): void
}

/** Follows the health of one source's objects until the signal aborts. @param onChange - called when it may differ */
export function followHealth(
  { namespaces, turns, rules, kinds, clock, log }: FollowHealthComponents,
  { client, scanLane }: HealthAccess,
  onChange: () => void,
  options: SourceOptions,
  signal: AbortSignal,
): FollowedHealth {
  const { serviceAccount } = options.accessAs ?? {}
  const account = serviceAccount ? `${serviceAccount.namespace}/${serviceAccount.name}` : ''
  let isDue = false
  const report = () => {
    if (isDue || signal.aborted) return
    isDue = true
    clock.after(reportMs, () => {
      isDue = false
      if (!signal.aborted) onChange()
    })
  }
  const verdictsOf = rules.verdictsOf
  const namespace = (name: string, onNamespace: () => void) => {
    const enter = (onRelated: () => void) => namespaces.enter({ account, namespace: name }, client, onRelated)
    return new NamespaceHealth({ enter, turns, verdictsOf, onChange: onNamespace, clock }, name)
  }
  const health = new SourceHealth(
    { lane: scanLane, verdictsOf, rulesReady: rules.ready, kinds, namespace, onChange: report, clock, log },
    options,
    signal,
  )
  const refreshLater = () => {
    const cancel = clock.after(refreshMs, () => {
      signal.removeEventListener('abort', cancel)
      health.refresh()
      refreshLater()
    })
    signal.addEventListener('abort', cancel, { once: true })
  }
  if (options.drift.mode === 'none' && !signal.aborted) refreshLater()
  return {
    get summary() {
      return health.summary
    },
    roundBegins: () => health.roundBegins(),
    stepEnded: (key, isWritten) => health.stepEnded(key, isWritten),
    roundEnds: (after) => {
      if (!after) return health.roundFailed()
      const { manifests, entries, kinds: served } = after
      const isOnce = (one: Manifest) => runsOnce(one, entries.get(keyText(one.key)))
      const once = new Set(Array.from(manifests).flatMap((one) => (isOnce(one) ? [keyText(one.key)] : [])))
      health.update(entries.values(), served, once)
    },
    seen: (key, version) => health.seen(key, version),
    left: (key) => health.left(key),
  }
}
