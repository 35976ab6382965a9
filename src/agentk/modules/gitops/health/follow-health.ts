import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Counter } from '../../../../lib/counter.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { SourceHealthSummary } from '../health-verdict.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import { runsOnce } from '../manifests/run-once.ts'
import type { AfterRound } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { HealthRules } from './health-rules.ts'
import type { JudgeTurns } from './judge-turns.ts'
import { NamespaceHealth, type NamespaceHealthComponents } from './namespace-health.ts'
import type { RelatedNamespaces } from './related-namespaces.ts'
import { type SeenMetadata, SourceHealth } from './source-health.ts'

/** Changes within this time are reported together. ms */
const reportMs = 200
/** Objects that are not watched are read again after this; seldom once they are healthy. ms */
const refreshMs = { moving: 5000, healthy: 60_000 }
/** Objects that were applied may change for so long. ms */
const movingMs = 60_000

/** Components that the health of all sources shares while this pod leads. */
export interface FollowHealthComponents {
  readonly namespaces: RelatedNamespaces
  readonly turns: JudgeTurns
  /** limits the objects that are kept, in characters */
  readonly room: Counter<string>
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
  /** @param of - metadata that a watch has sent, or a list */
  seen(key: ObjectKey, of: SeenMetadata): void
  /** An object was read for another purpose. */
  taken(key: ObjectKey, object: KubernetesObject): void
  left(key: ObjectKey): void
}

/** Follows the health of one source's objects until the signal aborts. @param onChange - called when it may differ */
export function followHealth(
  { namespaces, turns, room, rules, kinds, clock, log }: FollowHealthComponents,
  { client, scanLane }: HealthAccess,
  onChange: () => void,
  options: SourceOptions,
  signal: AbortSignal,
): FollowedHealth {
  const { serviceAccount } = options.accessAs ?? {}
  const account = serviceAccount ? `${serviceAccount.namespace}/${serviceAccount.name}` : ''
  let isDue = false
  let reported = ''
  const report = () => {
    if (isDue || signal.aborted) return
    isDue = true
    clock.after(reportMs, () => {
      isDue = false
      const summary = JSON.stringify(health.summary)
      if (signal.aborted || summary === reported) return
      reported = summary
      onChange()
    })
  }
  const verdictsOf = rules.verdictsOf
  const self = {}
  const turn = (judge: () => void) => turns.add(self, judge)
  const namespace = (name: string, onNamespace: () => void) => {
    const enter: NamespaceHealthComponents['enter'] = (listener) =>
      namespaces.enter({ account, namespace: name }, client, listener)
    return new NamespaceHealth({ enter, turn, room, verdictsOf, onChange: onNamespace, clock }, name)
  }
  const health = new SourceHealth(
    {
      lane: scanLane,
      rulesReady: rules.ready,
      isJudged: rules.isJudged,
      kinds,
      namespace,
      onChange: report,
      clock,
      log,
    },
    options,
    signal,
  )
  /** follows the objects of the last round; undefined: a round runs, and its end does */
  let followAgain: (() => void) | undefined
  rules.onChange(() => {
    followAgain?.()
    health.refresh()
  }, signal)
  /** time of the last round's end */
  let endedAt = clock.now()
  let refreshedAt = clock.now()
  const refreshLater = () => {
    const cancel = clock.after(refreshMs.moving, () => {
      signal.removeEventListener('abort', cancel)
      const { unread, unhealthy } = health.summary
      const now = clock.now()
      const isMoving = unread > 0 || unhealthy.length > 0 || now - endedAt < movingMs
      if (isMoving || now - refreshedAt >= refreshMs.healthy) {
        refreshedAt = now
        health.refresh()
      }
      refreshLater()
    })
    signal.addEventListener('abort', cancel, { once: true })
  }
  if (options.drift.mode === 'none' && !signal.aborted) refreshLater()
  return {
    get summary() {
      return health.summary
    },
    roundBegins: () => {
      followAgain = undefined
      health.roundBegins()
    },
    stepEnded: (key, isWritten) => {
      followAgain = undefined
      health.stepEnded(key, isWritten)
    },
    roundEnds: (after) => {
      if (!after) return health.roundFailed()
      const all = new Map(Array.from(after.manifests, (one) => [keyText(one.key), one]))
      const once = new Set([...all].flatMap(([text, one]) => (runsOnce(one, after.entries.get(text)) ? [text] : [])))
      // objects that have left the commit do not count
      const wanted = [...after.entries.values()].filter(({ key }) => all.has(keyText(key)))
      endedAt = clock.now()
      followAgain = () => health.update(wanted, after.kinds, once)
      followAgain()
    },
    seen: (key, of) => health.seen(key, of),
    taken: (key, object) => health.taken(key, object),
    left: (key) => health.left(key),
  }
}
