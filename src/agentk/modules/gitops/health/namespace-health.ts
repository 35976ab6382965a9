import { keyText } from '../../../../kubernetes/key.ts'
import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, kindOf, uidOf } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Counter } from '../../../../lib/counter.ts'
import { isSummary, type RuleVerdicts } from '../../../health/kas/opinion.ts'
import type { Cause } from '../../../health/kas/root-causes/choosing.ts'
import { Judge } from '../../../health/kas/root-causes/judge.ts'
import type { HealthCause, HealthVerdict } from '../health-verdict.ts'
import { ObjectsWorld } from './objects-world.ts'
import { maxRelatedNamespaces, type RelatedReader } from './related-namespaces.ts'
import { maxObjectChars, sizeOf } from './slim-object.ts'

/** Limit of unhealthy objects of one source in one namespace that are kept, to explain them: some 4 KiB each. */
const maxExplained = 200
/** Changes within this time are judged together. ms */
const judgeMs = 200
/** Objects of workloads are followed for so long after these are healthy: a rollout may go on. ms */
const lingerMs = 30_000
/** A namespace beyond the limit is tried again after this. ms */
const enterAgainMs = 10_000

export interface NamespaceHealthComponents {
  /** follows what workloads own here; undefined: the limit of namespaces is reached */
  readonly enter: (onChange: () => void) => RelatedReader | undefined
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
    const verdict = this.#verdictOf({ ...of, object }, this.#worldOf([object]))
    this.#verdicts.set(text, verdict)
    this.#release(text)
    if (verdict.word !== 'Healthy' && this.#unhealthy.size < maxExplained) this.#keep(text, { ...of, object })
    this.#followRelated()
    this.#judgeSoon()
    return verdict
  }

  /** The object does not exist, or is not the source's any more. */
  delete(text: string): void {
    this.#verdicts.delete(text)
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

  /** Follows what the unhealthy workloads own, and leaves a little after the last one is healthy. */
  #followRelated(): void {
    const { clock, enter } = this.#components
    const workloads = [...this.#unhealthy.values()].filter(({ object }) => isSummary(kindOf(object)))
    const roots = new Set(workloads.map(({ object }) => uidOf(object)))
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
    if (this.#namespace === '') return // workloads are in namespaces
    this.#reader ??= enter(() => this.#judgeSoon())
    this.#reader?.explain(roots)
    const isBeyond = this.#reader === undefined
    if (isBeyond) {
      this.#cancelEnter ??= clock.after(enterAgainMs, () => {
        this.#cancelEnter = undefined
        this.#followRelated()
      })
    }
    if (this.#isBeyond === isBeyond) return
    this.#isBeyond = isBeyond
    this.#components.onChange()
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
    const { clock, onChange } = this.#components
    const related = this.#reader?.objects
    const own = Array.from(this.#unhealthy.values(), ({ object }) => object)
    const ownUids = new Set(own.map(uidOf))
    const others = [...(related?.objects ?? [])].filter((one) => !ownUids.has(uidOf(one)))
    const world = this.#worldOf([...own, ...others])
    for (const [text, one] of this.#unhealthy) this.#verdicts.set(text, this.#verdictOf(one, world))
    this.#cancelDue?.()
    const dueAt = world.dueAt
    this.#cancelDue =
      dueAt === undefined
        ? undefined
        : clock.after(Math.max(0, Math.ceil(dueAt - clock.now())), () => this.#judgeSoon())
    onChange()
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
    return { key, version, word, cause: cause && causeOf(cause) }
  }
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
