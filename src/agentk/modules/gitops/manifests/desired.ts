import { createHash } from 'node:crypto'
import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import type { SourceOptions } from '../source-options.ts'
import { hookOf } from './hooks.ts'
import {
  type KeptManifest,
  keptManifest,
  type Manifest,
  type ManifestProblem,
  maxProblems,
  type ObjectTree,
  Problems,
  treeOf,
} from './manifest.ts'
import { type NormalObject, normalObject } from './normal-object.ts'
import type { Document } from './read-yaml.ts'
import { outsideReach, type Reach, reserved, type Scopes } from './scope.ts'

export interface Desired {
  readonly manifests: readonly KeptManifest[]
  /** manifests of unserved kinds; their namespace is a guess, unless a definition among the documents has the scope */
  readonly unknown: readonly KeptManifest[]
  /** objects that the configuration excludes from the source; each is a problem, too */
  readonly detached: readonly ObjectKey[]
  readonly problems: readonly ManifestProblem[]
}

interface DesiredOptions extends Reach, Pick<SourceOptions, 'defaultNamespace'> {
  /** limit of all manifests, as JSON; default: the limits of documents */
  readonly maxBytes?: number
}

/**
 * Returns the objects that documents want in the cluster. With a problem, nothing may be applied or pruned. Only the
 * JSON of each document's object is kept.
 */
export function desired(documents: Iterable<Document>, scopes: Scopes, options: DesiredOptions): Desired {
  const problems = new Problems()
  const objects: Placeable[] = []
  let bytes = 0
  for (const document of documents) {
    const { file, line } = document
    const normal = normalObject(document)
    if (typeof normal === 'string') problems.push({ file, line, text: normal })
    if (normal === undefined || typeof normal === 'string') continue
    bytes += normal.json.length
    if (bytes > (options.maxBytes ?? Number.POSITIVE_INFINITY)) {
      problems.push({ file, line, text: `the objects take more than ${options.maxBytes} bytes as JSON` })
      break
    }
    objects.push({ normal, file, line, declared: declaredScope(normal) })
  }
  return placed(objects, problems, scopes, options)
}

interface Placeable extends Omit<Document, 'object'> {
  readonly normal: NormalObject
  readonly declared: readonly [string, boolean] | undefined
}

/** Puts each object in its namespace. Duplicates, and objects out of the source's reach, are problems. */
function placed(objects: Placeable[], problems: Problems, scopes: Scopes, options: DesiredOptions): Desired {
  const [manifests, unknown, detached]: [KeptManifest[], KeptManifest[], ObjectKey[]] = [[], [], []]
  const declared = new Map(objects.flatMap(({ declared }) => (declared ? [declared] : [])))
  const known = new Map<string, Pick<Manifest, 'file' | 'line'>>()
  for (const { normal, file, line } of drained(objects)) {
    const served = scopes.isNamespaced(normal.group, normal.kind)
    const guess = normal.namespace !== '' || options.namespaces !== undefined
    const isNamespaced = served ?? declared.get(kindKey(normal.group, normal.kind)) ?? guess
    const namespace = isNamespaced ? normal.namespace || options.defaultNamespace : ''
    const { group, kind, name, version } = normal
    const key = { group, kind, namespace, name }
    const object = inNamespace(treeOf(normal.json), namespace)
    const outside = outsideReach(key, options)
    const twin = known.get(keyText(key))
    const problem = outside ?? reserved(key, object) ?? (twin && `it is also defined at ${twin.file}:${twin.line}`)
    if (outside && detached.length < maxProblems) detached.push(key)
    if (problem) problems.push({ file, line, text: `${keyName(key)}: ${problem}` })
    else {
      const json = Buffer.from(JSON.stringify(object))
      const hook = hookOf(object)
      const about = { key, version, file, line, digest: digestOf(object), ...(hook && { hook }) }
      const kept = served === undefined ? unknown : manifests
      kept.push(keptManifest(about, json))
    }
    if (!twin) known.set(keyText(key), { file, line })
  }
  if (known.size > maxObjects) {
    problems.push({ file: '', line: 0, text: `more than ${maxObjects} objects: ${known.size}` })
  }
  return { manifests, unknown, detached, problems: problems.list() }
}

/** Yields the items in their order, and removes each from the list. */
function* drained<T>(items: T[]): Generator<T> {
  items.reverse()
  for (let item = items.pop(); item !== undefined; item = items.pop()) yield item
}

function inNamespace(object: ObjectTree, namespace: string): ObjectTree {
  const { namespace: _, ...metadata } = object.metadata as Record<string, unknown>
  return { ...object, metadata: namespace ? { ...metadata, namespace } : metadata }
}

/** Returns the scope that a definition declares for its kind. */
function declaredScope({ group, kind, json }: NormalObject): readonly [string, boolean] | undefined {
  if (group !== 'apiextensions.k8s.io' || kind !== 'CustomResourceDefinition') return undefined
  const { group: of, scope, names } = (treeOf(json).spec ?? {}) as Record<string, unknown>
  return [kindKey(String(of), String((names as ObjectTree | undefined)?.kind)), scope === 'Namespaced']
}

/** SHA-256 of the object as JSON with sorted keys: hex. */
export function digestOf(object: ObjectTree): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(object)))
    .digest('hex')
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const keys = Object.keys(value).sort()
  return Object.fromEntries(keys.map((key) => [key, sorted((value as ObjectTree)[key])]))
}
