import { conditionsAt, isUnobserved, type TimedCondition } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, kindOf, textAt } from '../../../kubernetes/object.ts'
import type { ArgoHealth, ArgoStatus } from '../argo/health.ts'
import { kstatus } from '../kstatus/kstatus.ts'
import { inArgosWords } from '../verdict.ts'
import { type Finding, finding, found, minute, ranks, worstOf } from './finding.ts'

/** Verdicts of rules outside of this folder; undefined: there is no rule for the kind. */
export interface RuleVerdicts {
  readonly users?: ArgoHealth | undefined
  /** of a vendor's rule, else of Argo CD's */
  readonly argo?: ArgoHealth | undefined
}

/** Verdict on one object by itself, with the reason. */
export interface Opinion {
  readonly word: ArgoStatus
  /** undefined: it is well, or no reason is known */
  readonly finding: Finding | undefined
  /** `users`: the verdict stands whatever is below the object; `nobody`: the objects below it decide */
  readonly by: 'users' | 'rules' | 'nobody'
}

/** Kinds whose verdict sums up the Pods below them. */
const summaries: ReadonlySet<string> = new Set([
  'apps/Deployment',
  'apps/ReplicaSet',
  'apps/StatefulSet',
  'apps/DaemonSet',
  'ReplicationController',
  'batch/Job',
  'batch/CronJob',
])

export const isSummary = (kind: string) => summaries.has(kind)

/**
 * Chooses the verdict of a user's rule, else the finding's, else that of vendors and Argo CD, else kstatus'.
 *
 * @param found - finding of the rules here, as one caller sees it
 */
export function opinionOf(
  object: KubernetesObject,
  found: Finding | undefined,
  verdicts: RuleVerdicts,
  now: number,
): Opinion {
  if (verdicts.users) return { ...byRule(object, verdicts.users, now), by: 'users' }
  if (found) return opinionWith(found)
  if (verdicts.argo) return { ...byRule(object, verdicts.argo, now), by: 'rules' }
  const generic = byConditions(object, now) ?? byPhase(object, now)
  if (generic) return { word: generic.word, finding: generic, by: 'rules' }
  const word = inArgosWords[kstatus(object, now).status]
  if (word === 'Healthy') return { word, finding: undefined, by: saysWell(object, now) ? 'rules' : 'nobody' }
  return { word, finding: byKstatus(object, word, now), by: 'rules' }
}

/** Returns the opinion on an object with this finding. */
export function opinionWith(found: Finding): Opinion {
  return { word: found.word, finding: found.reason ? found : undefined, by: 'rules' }
}

function byRule(object: KubernetesObject, { status, text }: ArgoHealth, now: number): Omit<Opinion, 'by'> {
  if (status === 'Healthy') return { word: status, finding: undefined }
  const condition = conditionOf(object, text, now)
  if (!condition) {
    const other = byKstatus(object, status, now)
    // for a workload, the objects below say more
    const isSpoken = text !== '' && !isSummary(kindOf(object))
    const bare = finding(status, { reason: phaseOf(object) || status, text, rank: rankOf(object) })
    return {
      word: status,
      finding: other ? { ...other, text: text || other.text } : status === 'Degraded' || isSpoken ? bare : undefined,
    }
  }
  const { reason, type, since } = condition
  return { word: status, finding: finding(status, { reason: reason || type, text, since, rank: rankOf(object) }) }
}

function byKstatus(object: KubernetesObject, word: ArgoStatus, now: number): Finding | undefined {
  const { reason, text } = kstatus(object, now)
  // for a ReplicaSet it repeats its Deployment
  return reason && kindOf(object) !== 'apps/ReplicaSet'
    ? finding(word, { reason, text, rank: rankOf(object) })
    : undefined
}

function rankOf(object: KubernetesObject) {
  const kind = kindOf(object)
  if (kind === 'Pod') return ranks.pod
  return isSummary(kind) ? ranks.summary : ranks.other
}

/** Returns the condition whose message the text is, or contains. */
function conditionOf(object: KubernetesObject, text: string, now: number): TimedCondition | undefined {
  if (text === '') return undefined
  const spoken = conditionsAt(object, now).filter(({ message }) => message !== '')
  return spoken.find(({ message }) => message === text) ?? spoken.find(({ message }) => text.includes(message))
}

/** Time in which a condition that is False may become True. ms */
const notYetMs = 5 * minute
/** Condition types that are bad if True. */
const bad = ['Stalled', 'Degraded', 'Failed', 'Dangling']
/** Condition types that are good if True. */
const good = ['Ready', 'Available', 'Healthy', 'Synced']

/** Judges a kind without a rule, by conditions that many controllers write. */
function byConditions(object: KubernetesObject, now: number): Finding | undefined {
  const conditions = conditionsAt(object, now)
  if (conditions.length === 0) return undefined
  const byType = new Map(conditions.map((one) => [one.type, one]))
  const isOld = isUnobserved(object)
  const of = (one: TimedCondition, grace: number | undefined) =>
    found(object, now, {
      reason: one.reason || one.type,
      text: one.message || `${one.type} is ${one.status}`,
      rank: ranks.other,
      since: one.since,
      grace: isOld ? undefined : grace,
    })
  return worstOf([
    ...bad.map((type) => byType.get(type)).map((one) => (one?.status === 'True' ? of(one, 0) : undefined)),
    ...good
      .map((type) => byType.get(type))
      .map((one) =>
        one && one.status !== 'True' ? of(one, one.status === 'False' ? notYetMs : undefined) : undefined,
      ),
  ])
}

/** Returns a status word of the controller; '': there is none. */
function phaseOf(object: KubernetesObject): string {
  const word = textAt(object, 'status.phase') || textAt(object, 'status.state')
  return /^[A-Za-z][\w-]{0,62}$/.test(word) ? word : ''
}

/** True for kinds of vendors. @param kind - `group/Kind` */
export const isCustom = (kind: string) => /\.[^/]+\//.test(kind) && !/\.k8s\.io\//.test(kind)

/** Judges an object whose controller writes a word for failure, unless a condition says that it is well. */
function byPhase(object: KubernetesObject, now: number): Finding | undefined {
  const phase = phaseOf(object)
  if (!isCustom(kindOf(object)) || !/^(?:failed|failure|error)$/i.test(phase) || saysWell(object, now)) return undefined
  if (isUnobserved(object)) return undefined
  const text = textAt(object, 'status.message') || textAt(object, 'status.reason') || `it is ${phase}`
  return finding('Degraded', { reason: phase, text, rank: ranks.other })
}

/** True if a condition of the object says that it is well. */
function saysWell(object: KubernetesObject, now: number): boolean {
  return conditionsAt(object, now).some(({ type, status }) => status === 'True' && good.includes(type))
}
