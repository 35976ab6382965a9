import { type KubernetesObject, kindOf } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import { argoHealth } from '../../../health/argo/argo.ts'
import type { CustomHealth } from '../../../health/custom/custom-rule.ts'
import { CustomRules } from '../../../health/custom/custom-rules.ts'
import { type RuleReader, ruleReader } from '../../../health/custom/rule-sources.ts'
import type { WrittenRules } from '../../../health/custom/written-rules.ts'
import { isCustom, type RuleVerdicts } from '../../../health/kas/opinion.ts'
import { isJudgedKind } from './judged-kinds.ts'

/** A user's rule that takes longer for one object is not used until views.yaml changes: all of agentk waits for it. ms */
const maxRuleMs = 250
/** Kinds that explain workloads: their rules are ready before their objects come. */
const relatedKinds = ['Pod', 'PersistentVolumeClaim', 'apps/ReplicaSet', 'batch/Job']

export interface HealthRules {
  /** Prepares the rule of a kind (`group/Kind`), so that its objects can be judged. */
  readonly ready: (kind: string) => Promise<void>
  readonly verdictsOf: (object: KubernetesObject) => RuleVerdicts
  /** True if objects of a kind (`group/Kind`) can be unhealthy. Secrets are never read. */
  readonly isJudged: (kind: string) => boolean
  /** Calls the listener once other rules are in use, until the signal aborts. */
  readonly onChange: (listener: () => void, signal: AbortSignal) => void
}

export interface HealthRulesComponents {
  readonly written: Pick<WrittenRules, 'health' | 'onChange'>
  /** for durations, in ms */
  readonly pace: Pick<Clock, 'now'>
  readonly log: Logger
}

interface LoadedRules {
  /** list that was read */
  readonly health: readonly unknown[]
  readonly users: CustomRules
  readonly vendors: CustomRules
  /** kinds of users' rules that took too long */
  readonly aside: Set<string>
}

/** Returns users' rules of views.yaml, those of vendors behind them, and Argo CD's own behind these, as views have them. */
export function healthRules({ written, pace, log }: HealthRulesComponents): HealthRules {
  let reader: Promise<RuleReader> | undefined
  let loading: Promise<LoadedRules> | undefined
  let read: LoadedRules | undefined
  const onBroken = (kind: string, error: unknown) => log.warn({ kind, error }, 'A rule of health is not used')
  const load = async (): Promise<LoadedRules> => {
    reader ??= ruleReader()
    const own = await reader
    const { health } = written
    const sources = own.read(health)
    const users = new CustomRules(sources.users, onBroken)
    own.used((await users.check(sources.last)).good)
    for (const kind of relatedKinds) await users.ready(kind)
    read = { health, users, vendors: read?.vendors ?? new CustomRules(sources.vendors, onBroken), aside: new Set() }
    return read
  }
  const loadAgain = (): Promise<LoadedRules> => {
    loading = load()
    return loading
  }
  /** Loads once for each list; the vendors' rules are read with the first one that is needed. */
  const current = async (): Promise<LoadedRules> => {
    let loaded = await (loading ?? loadAgain())
    while (loaded.health !== written.health) loaded = await loadAgain()
    return loaded
  }
  const judgedByUsers = (object: KubernetesObject): CustomHealth | undefined => {
    const kind = kindOf(object)
    if (!read || kind === 'Secret' || read.aside.has(kind)) return undefined
    const began = pace.now()
    const health = read.users.judge(object)
    const ms = Math.round(pace.now() - began)
    if (ms > maxRuleMs) {
      read.aside.add(kind)
      log.warn({ kind, ms }, 'A rule of health takes too long, and is not used for sources until views.yaml changes')
    }
    return health
  }
  return {
    ready: async (kind) => {
      if (!isCustom(kind) && written.health.length === 0) return
      const { users, vendors } = await current()
      if (users.has(kind)) await users.ready(kind)
      else if (isCustom(kind)) await vendors.ready(kind)
    },
    verdictsOf: (object) => {
      let isUsers = false
      const argo = argoHealth(object, (one) => {
        const users = judgedByUsers(one)
        isUsers = users !== undefined
        return users ?? (isCustom(kindOf(one)) ? read?.vendors.judge(one) : undefined)
      })
      return isUsers && argo ? { users: argo } : { argo }
    },
    isJudged: (kind) => kind !== 'Secret' && (isJudgedKind(kind) || read?.users.has(kind) === true),
    onChange: (listener, signal) => {
      const changed = () =>
        void current().then(
          () => !signal.aborted && listener(),
          (error: unknown) => log.error({ error }, 'Rules of health cannot be read'),
        )
      const unsubscribe = written.onChange(changed)
      signal.addEventListener('abort', unsubscribe, { once: true })
      if (written.health.length > 0 && read?.health !== written.health) changed()
    },
  }
}
