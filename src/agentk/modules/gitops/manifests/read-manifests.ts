import { desired } from './desired.ts'
import type { Manifest, ManifestProblem, RepositoryFile } from './manifest.ts'
import { readFiles } from './read-yaml.ts'
import type { Reach } from './scope.ts'

/** What is to be read, and by which rules. A thread can be told it. */
export interface ManifestsJob {
  readonly files: readonly RepositoryFile[]
  /** by `group/Kind`: whether the kind has namespaces */
  readonly scopes: ReadonlyMap<string, boolean>
  readonly options: Reach & { readonly defaultNamespace: string }
}

export interface ManifestsAnswer {
  /** those of kinds that nobody serves yet are last */
  readonly manifests: readonly Manifest[]
  /** for which the commit is refused */
  readonly problems: readonly ManifestProblem[]
}

/** What files want of the cluster. */
export function readManifests({ files, scopes, options }: ManifestsJob): ManifestsAnswer {
  const { documents, problems } = readFiles(files)
  if (problems.length > 0) return { manifests: [], problems }
  const isNamespaced = (group: string, kind: string) => scopes.get(`${group}/${kind}`)
  const found = desired(documents, { isNamespaced }, options)
  return { manifests: [...found.manifests, ...found.unknown], problems: found.problems }
}

/** Of manifests that are handed on at once: objects, and characters of their JSON. */
const maxPart = { manifests: 64, characters: 256 * 1024 }

/** In parts, each of which takes its reader a moment alone. */
export function* partsOf(manifests: readonly Manifest[]): Generator<readonly Manifest[]> {
  let part: Manifest[] = []
  let characters = 0
  for (const manifest of manifests) {
    part.push(manifest)
    characters += JSON.stringify(manifest.object).length
    if (part.length < maxPart.manifests && characters < maxPart.characters) continue
    yield part
    part = []
    characters = 0
  }
  if (part.length > 0) yield part
}
