import { isUnobserved } from '../../../../kubernetes/conditions.ts'
import { keyText } from '../../../../kubernetes/key.ts'
import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, kindOf, numberAt, uidOf } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Counter } from '../../../../lib/counter.ts'
import { severityOf } from '../../../health/kas/finding.ts'
import { isJudged } from '../../../health/kas/findings.ts'
import type { RuleVerdicts } from '../../../health/kas/opinion.ts'
import type { Cause } from '../../../health/kas/root-causes/choosing.ts'
import { Judge } from '../../../health/kas/root-causes/judge.ts'
import type { HealthCause, HealthVerdict } from '../health-verdict.ts'
import { ObjectsWorld } from './objects-world.ts'
import { maxRelatedNamespaces, type RelatedListener, type RelatedReader } from './related-namespaces.ts'
import { ReplacedPods } from './replaced-pods.ts'
import { maxObjectChars, sizeOf } from './slim-object.ts'

/** Limit of unhealthy objects of one source in one namespace that are kept, to explain them: some 4 KiB each. */
const maxExplained = 200
/** Changes within this time are judged together. ms */
const judgeMs = 200
/** Objects of workloads are followed for so long after these are healthy: a rollout may go on. ms */
const lingerMs = 30_000
/** Longest wait for a verdict that time alone changes: after it, a clock that was set is noticed. ms */
const maxDueMs = 60_000
/** A namespace beyond the limit is tried again after this. ms */
const enterAgainMs = 10_000

export interface NamespaceHealthComponents {
  /** follows what workloads own here; undefined: the limit of namespaces is reached */
  readonly enter: (listener: RelatedListener) => RelatedReader | undefined
  /** adds a judgement of the source to the turns */
  readonly turn: (judge: () => void) => () => void
  /** limits the objects that are kept, in characters */
  readonly room: Pick<Counter<string>, 'enter'>
  readonly verdictsOf: (object: KubernetesObject) => RuleVerdicts
  /** called when `verdicts` or `unlisted` may be others */
  readonly onChange: () => void
  /** by the API server */
  readonly clock: Clock
}

type Subject = Pick<HealthVerdict, 'key' | 'version'>

interface Unhealthy extends Subject {
  readonly object: KubernetesObject
}

/** Verdicts on the objects of one source in one namespace. */
export class NamespaceHealth {
  readonly #components: NamespaceHealthComponents
  readonly #namespace: string
  /** by `keyText` */
  readonly #verdicts = new Map<string, HealthVerdict>()
  readonly #unhealthy = new Map<string, Unhealthy>()
  /** by `keyText`: functions that give the room of kept objects back */
  readonly #releases = new Map<string, () => void>()
  readonly #replaced = new ReplacedPods()
  #reader: RelatedReader | undefined
  #isBeyond = false
  #cancelJudge: (() => void) | undefined
  #cancelDue: (() => void) | undefined
  #cancelEnter: (() => void) | undefined
  #cancelLeave: (() => void) | undefined

  constructor(components: NamespaceHealthComponents, namespace: string) {
    this.#components = components
    this.#namespace = namespace
  }

  /** Verdicts by `keyText`. */
  get verdicts(): ReadonlyMap<string, HealthVerdict> {
    return this.#verdicts
  }

  /** Kinds that cannot be read here: `Pod: agentk may not list them (403)`. The texts name no namespace. */
  get unlisted(): readonly string[] {
    if (this.#isBeyond) return [`Pod: workloads of more than ${maxRelatedNamespaces} namespaces are not healthy`]
    return Array.from(this.#reader?.objects.trouble ?? [], ([kind, text]) => `${kind}: ${text}`)
  }

  /** Takes an object that was read, with its apiVersion and kind, and judges it by itself. */
  put(of: Subject, object: KubernetesObject): HealthVerdict {
    const text = keyText(of.key)
    const alone = this.#verdictOf({ ...of, object }, this.#worldOf([object]))
    const explained = this.#explainedVerdict(text, object)
    this.#release(text)
    if (alone.word !== 'Healthy' && this.#unhealthy.size < maxExplained) this.#keep(text, { ...of, object })
    // its Pods are judged with it soon: until then, a worse verdict stays
    const isBetter = explained && severityOf(alone.word) <= severityOf(explained.word)
    const verdict = isBetter && this.#unhealthy.has(text) ? explained : alone
    this.#verdicts.set(text, verdict)
    this.#followRelated()
    this.#judgeSoon()
    return verdict
  }

  /** Returns the verdict by what an object owns, if its spec is the same now. */
  #explainedVerdict(text: string, object: KubernetesObject): HealthVerdict | undefined {
    const before = this.#unhealthy.get(text)?.object
    return before && isOfSameSpec(before, object) ? this.#verdicts.get(text) : undefined
  }

  /** True if Pods of an unhealthy workload are known to be not ready: its own status says little until they are. */
  awaitsPods(text: string): boolean {
    const object = this.#unhealthy.get(text)?.object
    return object !== undefined && this.#reader?.objects.awaitsPods(uidOf(object)) === true
  }

  /** The object does not exist, or is not the source's any more. */
  delete(text: string): void {
    this.#verdicts.delete(text)
    this.#replaced.delete(text)
    if (this.#release(text)) this.#followRelated()
  }

  /** Keeps an object to explain it, if there is room. */
  #keep(text: string, one: Unhealthy): void {
    const size = sizeOf(one.object)
    const release = size > maxObjectChars ? undefined : this.#components.room.enter(this.#namespace, size)
    if (!release) return
    this.#unhealthy.set(text, one)
    this.#releases.set(text, release)
  }

  /** @returns true: it was kept */
  #release(text: string): boolean {
    this.#releases.get(text)?.()
    this.#releases.delete(text)
    return this.#unhealthy.delete(text)
  }

  stop(): void {
    for (const cancel of [this.#cancelJudge, this.#cancelDue, this.#cancelEnter, this.#cancelLeave]) cancel?.()
    this.#reader?.leave()
    this.#reader = undefined
    for (const text of [...this.#releases.keys()]) this.#release(text)
  }

  /** Follows the events of unhealthy objects and what they own, and leaves a little after the last one is healthy. */
  #followRelated(): void {
    const { clock, enter } = this.#components
    const explained = [...this.#unhealthy.values()].filter(({ object }) => isJudged(kindOf(object)))
    const roots = new Set(explained.map(({ object }) => uidOf(object)))
    this.#cancelLeave?.()
    this.#cancelLeave = undefined
    if (roots.size === 0) {
      this.#isBeyond = false
      this.#cancelEnter?.()
      this.#cancelEnter = undefined
      if (this.#reader) {
        this.#cancelLeave = clock.after(lingerMs, () => {
          this.#reader?.leave()
          this.#reader = undefined
          this.#components.onChange()
        })
      }
      return
    }
    if (this.#namespace === '') return // the events of others are in no namespace of the source
    this.#reader ??= enter({ onChange: () => this.#judgeSoon(), onEnd: () => this.#readerEnded() })
    this.#reader?.explain(roots)
    const isBeyond = this.#reader === undefined
    if (isBeyond) this.#cancelEnter ??= clock.after(enterAgainMs, () => this.#enterAgain())
    if (this.#isBeyond === isBeyond) return
    this.#isBeyond = isBeyond
    this.#components.onChange()
  }

  /** Another account needs the place: it is tried again. */
  #readerEnded(): void {
    this.#reader = undefined
    this.#cancelLeave?.()
    this.#cancelLeave = undefined
    this.#isBeyond = true
    const { clock, onChange } = this.#components
    this.#cancelEnter ??= clock.after(enterAgainMs, () => this.#enterAgain())
    this.#judgeSoon()
    onChange()
  }

  #enterAgain(): void {
    this.#cancelEnter = undefined
    this.#followRelated()
    this.#judgeSoon() // other sources may have read what these workloads own
  }

  #judgeSoon(): void {
    const { clock, turn } = this.#components
    this.#cancelJudge ??= clock.after(judgeMs, () => {
      this.#cancelJudge = turn(() => {
        this.#cancelJudge = undefined
        this.#judgeAll()
      })
    })
  }

  /** Judges the unhealthy objects by what they own, and again once time alone changes a verdict. */
  #judgeAll(): void {
    const { onChange } = this.#components
    const related = this.#reader?.objects
    const own = Array.from(this.#unhealthy.values(), ({ object }) => object)
    const ownUids = new Set(own.map(uidOf))
    const others = [...(related?.objects ?? [])].filter((one) => !ownUids.has(uidOf(one)))
    const world = this.#worldOf([...own, ...others])
    const kept: number[] = []
    for (const [text, one] of this.#unhealthy) {
      const after = this.#verdictOf(one, world)
      const until = this.#keptUntil(text, one.object, after)
      if (until === undefined) this.#verdicts.set(text, after)
      else kept.push(until)
    }
    const { dueAt = Number.POSITIVE_INFINITY } = world
    this.#judgeAt(Math.min(dueAt, ...kept))
    onChange()
  }

  #keptUntil(text: string, object: KubernetesObject, after: HealthVerdict): number | undefined {
    const deletedAt = (pod: string) => this.#reader?.objects.deletedAt(pod)
    const now = this.#components.clock.now()
    return this.#replaced.keptUntil(text, { object, before: this.#verdicts.get(text), after, deletedAt, now })
  }

  /** @param at - in ms since 1970; infinite: never */
  #judgeAt(at: number): void {
    const { clock } = this.#components
    this.#cancelDue?.()
    const waitMs = Math.min(maxDueMs, Math.max(0, Math.ceil(at - clock.now())))
    this.#cancelDue = Number.isFinite(at) ? clock.after(waitMs, () => this.#judgeSoon()) : undefined
  }

  #worldOf(objects: readonly KubernetesObject[]): ObjectsWorld {
    const { verdictsOf, clock } = this.#components
    const related = this.#reader?.objects
    return new ObjectsWorld({
      objects,
      evidence: related?.evidence() ?? new Map(),
      verdictsOf,
      isWhole: (kind, namespace) => namespace === this.#namespace && related?.isWhole(kind) === true,
      now: clock.now(),
    })
  }

  #verdictOf({ key, version, object }: Unhealthy, world: ObjectsWorld): HealthVerdict {
    const { verdict: word, cause } = new Judge(world, () => true).judgeAll([object])
    // its status is of an earlier spec: what a rule reads there does not hold
    if (word === 'Healthy' && isUnobserved(object)) return { key, version, word: 'Progressing', cause: undefined }
    return { key, version, word, cause: cause && causeOf(cause) }
  }
}

function isOfSameSpec(one: KubernetesObject, other: KubernetesObject): boolean {
  const generation = (object: KubernetesObject) => numberAt(object, 'metadata.generation')
  return uidOf(one) === uidOf(other) && generation(one) === generation(other)
}

/** A text that other objects were read for is left out: who may get the culprit need not see these. */
function causeOf({ kind, namespace, name, reason, text, since, needs }: Cause): HealthCause {
  const isOfCulprit = needs.every(([needed]) => needed === kind)
  const shown = isOfCulprit ? maskedKeys(text) : ''
  return { culprit: { ...parseKindKey(kind), namespace, name }, reason, text: shown, since }
}

/** Words of the kubelet that name a key of a Secret. */
const secretKeys = [
  /\bkey \S{1,253} in Secret\b/gi,
  /\bsecret key: \S{1,253}/gi,
  /\bkeys \[[^\]]{1,4096}\] from the EnvFrom secret\b/gi,
]

/** Returns a text without keys of Secrets: states have none. */
const maskedKeys = (text: string) => secretKeys.reduce((left, form) => left.replaceAll(form, 'a key of Secret'), text)
