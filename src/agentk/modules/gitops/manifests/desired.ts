import { maxObjects } from '../../../../proto/gitops-json.ts'
import type { SourceOptions } from '../source-options.ts'
import { digestOf } from './digest.ts'
import type { Manifest, ManifestProblem, ObjectTree } from './manifest.ts'
import { type NormalObject, normalObject } from './normal-object.ts'
import { keyName, keyText, type ObjectKey } from './object-key.ts'
import type { Document } from './read-yaml.ts'
import { outsideReach, type Reach, reserved, type Scopes } from './scope.ts'

export interface Desired {
  readonly manifests: Manifest[]
  /** of kinds that nobody serves yet; their namespace is a guess, unless a definition among the documents tells */
  readonly unknown: Manifest[]
  /** what the configuration keeps the source off; each is a problem, too */
  readonly detached: ObjectKey[]
  readonly problems: ManifestProblem[]
}

/** What documents want of the cluster. With a problem, nothing of it is to be applied, and nothing pruned. */
export function desired(
  documents: readonly Document[],
  scopes: Scopes,
  options: Reach & Pick<SourceOptions, 'defaultNamespace'>,
): Desired {
  const wanted: Desired = { manifests: [], unknown: [], detached: [], problems: [] }
  const objects: { normal: NormalObject; document: Document }[] = []
  for (const document of documents) {
    const normal = normalObject(document)
    if (typeof normal === 'string') wanted.problems.push(problemOf(document, normal))
    else if (normal) objects.push({ normal, document })
  }
  const declared = new Map(objects.flatMap(({ normal }) => declaredScope(normal)))
  const known = new Map<string, Manifest>()
  for (const { normal, document } of objects) {
    const served = scopes.isNamespaced(normal.group, normal.kind)
    const guess = normal.namespace !== '' || options.namespaces !== undefined
    const isNamespaced = served ?? declared.get(`${normal.group}/${normal.kind}`) ?? guess
    const manifest = manifestOf(normal, document, isNamespaced ? normal.namespace || options.defaultNamespace : '')
    const { key } = manifest
    const outside = outsideReach(key, options)
    const twin = known.get(keyText(key))
    const why = outside ?? reserved(key, manifest.object) ?? (twin && `it stands at ${twin.file}:${twin.line}, too`)
    if (outside) wanted.detached.push(key)
    if (why) wanted.problems.push(problemOf(document, `${keyName(key)}: ${why}`))
    else (served === undefined ? wanted.unknown : wanted.manifests).push(manifest)
    if (!twin) known.set(keyText(key), manifest)
  }
  if (known.size > maxObjects) {
    wanted.problems.push({ file: '', line: 0, text: `more than ${maxObjects} objects: ${known.size}` })
  }
  return wanted
}

function problemOf({ file, line }: Document, text: string): ManifestProblem {
  return { file, line, text }
}

function manifestOf(
  { group, kind, name, version, object }: NormalObject,
  document: Document,
  namespace: string,
): Manifest {
  const { namespace: _, ...metadata } = object.metadata as Record<string, unknown>
  const placed: ObjectTree = { ...object, metadata: namespace ? { ...metadata, namespace } : metadata }
  const { file, line } = document
  return { key: { group, kind, namespace, name }, version, object: placed, file, line, digest: digestOf(placed) }
}

/** What a definition of a kind says of it. */
function declaredScope({ group, kind, object }: NormalObject): (readonly [string, boolean])[] {
  if (group !== 'apiextensions.k8s.io' || kind !== 'CustomResourceDefinition') return []
  const { group: of, scope, names } = (object.spec ?? {}) as Record<string, unknown>
  return [[`${of}/${(names as ObjectTree | undefined)?.kind}`, scope === 'Namespaced']]
}
