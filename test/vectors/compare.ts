import { readFileSync } from 'node:fs'
import { argoHealth } from '../../src/agentk/health/argo/argo.ts'
import { CustomRules } from '../../src/agentk/health/custom/custom-rules.ts'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { kstatus } from '../../src/agentk/health/kstatus/kstatus.ts'
import { kstatuses } from '../../src/agentk/health/kstatus/status.ts'
import { type KubernetesObject, kindOf } from '../../src/kubernetes/object.ts'

/** A vector in the form of the shared files. */
export interface Vector {
  readonly name: string
  readonly object: KubernetesObject
  /** true: the object is created now */
  readonly now?: boolean
  readonly expect: {
    readonly status: string | null
    readonly text?: string
    readonly conditions?: readonly { readonly reason: string }[]
  }
}

export interface Comparison {
  readonly vectors: number
  readonly equalStatus: number
  /** number of vectors with a text */
  readonly texts: number
  readonly equalTexts: number
  /** one line each */
  readonly differences: readonly string[]
}

export function readVectors(file: string): Vector[] {
  return JSON.parse(readFileSync(file, 'utf8')) as Vector[]
}

/**
 * Compares vectors by the rules of kstatus if they use its words, otherwise by those of Argo CD. Our own rules fill the
 * gaps.
 */
export async function compare(vectors: readonly Vector[]): Promise<Comparison> {
  const isKstatus = vectors.some(({ expect }) => expect.status !== 'Unknown' && isOfKstatus(expect.status))
  const judge = isKstatus ? kstatusOf : await argoJudge(vectors)
  let [equalStatus, texts, equalTexts] = [0, 0, 0]
  const differences: string[] = []
  for (const vector of vectors) {
    const { name, expect } = vector
    const found = judge(vector)
    const isEqual = found.status === expect.status && isAsTold(found.reason, expect)
    if (isEqual) equalStatus++
    else differences.push(`${name}: ${found.status} ${found.reason} (${found.text}), not ${JSON.stringify(expect)}`)
    if (expect.text === undefined) continue
    texts++
    if (found.text === expect.text) equalTexts++
  }
  return { vectors: vectors.length, equalStatus, texts, equalTexts, differences }
}

const isOfKstatus = (status: string | null) => kstatuses.some((one) => one === status)

interface Found {
  readonly status: string | null
  readonly reason: string
  readonly text: string
}

function kstatusOf({ object, now }: Vector): Found {
  const at = Date.now()
  const metadata = object.metadata as object
  const seen = now ? { ...object, metadata: { ...metadata, creationTimestamp: new Date(at).toISOString() } } : object
  return kstatus(seen, at)
}

async function argoJudge(vectors: readonly Vector[]): Promise<(vector: Vector) => Found> {
  const broken: string[] = []
  const sources = await vendorRules()
  const rules = new CustomRules(sources, (kind, error) => broken.push(`${kind}: ${(error as Error).message}`))
  for (const { object } of vectors) await rules.ready(kindOf(object))
  return ({ object, expect }) => {
    // null: Argo CD without overrides has no rule, even if we have one for the kind
    const health = argoHealth(object, (one) => (expect.status === null ? undefined : rules.judge(one)))
    return { status: health?.status ?? null, reason: broken.splice(0).join(), text: health?.text ?? '' }
  }
}

function isAsTold(reason: string, { conditions }: Vector['expect']): boolean {
  return !conditions?.length || conditions.some((condition) => condition.reason === reason)
}
