import { kindKey } from '../../../../kubernetes/kind.ts'
import { desired } from './desired.ts'
import {
  type KeptManifest,
  keptManifest,
  type Manifest,
  type ManifestProblem,
  Problems,
  type RepositoryFile,
} from './manifest.ts'
import { type Document, YamlReading } from './read-yaml.ts'
import type { RoundBudget } from './round-budget.ts'
import type { Reach } from './scope.ts'

/** Files to read, with the rules for it. It can be sent to a thread. */
export interface ManifestsJob {
  readonly files: readonly RepositoryFile[]
  /** by `group/Kind`: true for a namespaced kind */
  readonly scopes: ReadonlyMap<string, boolean>
  readonly options: Reach & { readonly defaultNamespace: string }
  /** budget that the commit's checks have left; default: a new one */
  readonly budget?: RoundBudget
  /** limit of the objects, as JSON */
  readonly maxBytes?: number
}

export interface ManifestsAnswer {
  /** manifests of unserved kinds are last */
  readonly manifests: readonly Manifest[]
  /** problems for which the commit is refused */
  readonly problems: readonly ManifestProblem[]
}

/** Manifests in transfer from one thread to another. */
export interface ManifestsPart {
  /** manifests without their objects, with the bytes of each */
  readonly about: readonly (Omit<Manifest, 'object'> & { readonly bytes: number })[]
  /** JSON of all manifests, one after another */
  readonly json: Uint8Array<ArrayBuffer>
}

/** Returns the objects that files want in the cluster. */
export function readManifests(job: ManifestsJob): ManifestsAnswer {
  const { problems, parts } = manifestParts(job)
  return { manifests: [...parts].flatMap(manifestsOf), problems }
}

/** Returns the same in parts. With a problem there are no parts. */
export function manifestParts({ files, scopes, options, budget, maxBytes }: ManifestsJob): {
  problems: readonly ManifestProblem[]
  parts: Generator<ManifestsPart>
} {
  const problems = new Problems()
  const reading = new YamlReading(problems, budget && { budget })
  function* documents(): Generator<Document> {
    for (const file of files) yield* reading.documents(file)
  }
  const isNamespaced = (group: string, kind: string) => scopes.get(kindKey(group, kind))
  const found = desired(documents(), { isNamespaced }, { ...options, ...(maxBytes !== undefined && { maxBytes }) })
  if (problems.count === 0) problems.push(...found.problems)
  return { problems: problems.list(), parts: partsOf(problems.count > 0 ? [] : [...found.manifests, ...found.unknown]) }
}

/** Limits of a part: objects, and bytes of their JSON. */
const maxPart = { manifests: 64, bytes: 256 * 1024 }

/** Yields the manifests in parts; each takes its reader a moment. */
function* partsOf(manifests: readonly KeptManifest[]): Generator<ManifestsPart> {
  let part: KeptManifest[] = []
  let bytes = 0
  for (const manifest of manifests) {
    part.push(manifest)
    bytes += manifest.json.length
    if (part.length < maxPart.manifests && bytes < maxPart.bytes) continue
    yield partOf(part, bytes)
    part = []
    bytes = 0
  }
  if (part.length > 0) yield partOf(part, bytes)
}

function partOf(manifests: readonly KeptManifest[], bytes: number): ManifestsPart {
  const all = new Uint8Array(bytes)
  let at = 0
  const about = manifests.map(({ key, version, file, line, digest, hook, json }) => {
    all.set(json, at)
    at += json.length
    return { key, version, file, line, digest, ...(hook && { hook }), bytes: json.length }
  })
  return { about, json: all }
}

/** Returns the manifests of a part; they share its bytes. */
export function manifestsOf({ about, json }: ManifestsPart): Manifest[] {
  let at = 0
  return about.map(({ bytes, ...rest }) => {
    const own = json.subarray(at, at + bytes)
    at += bytes
    return keptManifest(rest, own)
  })
}
