import { setImmediate } from 'node:timers/promises'
import { KasError } from '../../../lib/errors.ts'
import type { PathCF } from '../../../proto/gen/gitops_pb.ts'
import type { TreeFile } from '../../repositories/tree.ts'
import { type Glob, type Matcher, pathNames, readGlob } from './glob-match.ts'

/** Which files an agent asks for. */
export interface FileChoice {
  readonly globs: readonly Glob[]
  /** full paths */
  readonly files: readonly string[]
  /** full path of a folder that holds all of them; empty: the root */
  readonly folder: string
}

/** of all globs, once `{a,b}` are written out: each is compared with each file */
const maxAlternatives = 200
/** of all comparisons, as `Effort` counts: one round takes no more than a second or two of the event loop */
const maxSteps = 200_000_000
/** until others get their turn of the event loop: about 1 ms, and one comparison more */
const stepsAtOnce = 100_000

/** @throws KasError INVALID_MESSAGE */
export function checkPathCount(count: number, maxPaths: number): void {
  if (count === 0) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'paths are required' })
  if (count <= maxPaths) return
  const detail = `maximum number of GitOps paths per manifest project is ${maxPaths}, but ${count} was requested`
  throw new KasError({ code: 'INVALID_MESSAGE', detail })
}

/** @throws KasError INVALID_MESSAGE, MANIFESTS_REFUSED */
export function readPaths(paths: readonly PathCF[]): FileChoice {
  const globs: Glob[] = []
  const files: string[] = []
  let alternatives = 0
  for (const { path } of paths) {
    if (!path.value) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a path is empty' })
    if (path.case === 'file') {
      files.push(path.value)
      continue
    }
    const glob = readGlob(path.value)
    alternatives += glob.alternatives.length
    if (alternatives > maxAlternatives) throw refused(`more than ${maxAlternatives} alternatives in all globs`)
    globs.push(glob)
  }
  const folders = [...globs.map(({ folder }) => folder), ...files.map((file) => file.split('/').slice(0, -1).join('/'))]
  return { globs, files, folder: commonFolder(folders) }
}

function commonFolder(folders: readonly string[]): string {
  const [first = [], ...others] = folders.map((folder) => folder.split('/'))
  const end = first.findIndex((part, i) => others.some((other) => other[i] !== part))
  return first.slice(0, end < 0 ? first.length : end).join('/')
}

/**
 * The chosen files, in the order in which stock kas sends them: glob by glob, then single files. What lies in a folder
 * that begins with a dot is left out.
 *
 * @throws KasError MANIFESTS_REFUSED if two globs match one file, a single file is not there, there are too many, or
 * comparing takes too long
 */
export async function chosenFiles(
  { globs, files }: FileChoice,
  tree: readonly TreeFile[],
  maxFiles: number,
): Promise<TreeFile[]> {
  const visible = tree.filter(({ path }) => !isHidden(path))
  const chosen = new Map<string, TreeFile>()
  const choose = (file: TreeFile) => {
    if (chosen.size >= maxFiles) throw refused(`maximum number of files limit reached: ${maxFiles}`)
    chosen.set(file.path, file)
  }
  const comparing = new Comparing()
  for (const { folder, alternatives } of globs) {
    await comparing.spend(visible.length)
    const prefix = folder === '' ? '' : `${folder}/`
    for (const file of visible) {
      if (!file.path.startsWith(prefix)) continue
      if (!(await comparing.matches(alternatives, file.path))) continue
      if (chosen.has(file.path)) throw refused(`path visited more than once: ${file.path}`)
      choose(file)
    }
  }
  if (files.length > 0) {
    const known = new Map(tree.map((file) => [file.path, file]))
    for (const path of files) {
      const file = known.get(path)
      if (!file) throw refused(`file/directory/ref not found: ${path}`)
      if (!isHidden(path) && !chosen.has(path)) choose(file)
    }
  }
  return [...chosen.values()]
}

/** Compares paths in turn with the rest of the program, and not without end. */
class Comparing {
  readonly #effort = { steps: 0 }
  #pauseAt = stepsAtOnce

  /** @throws KasError MANIFESTS_REFUSED */
  async matches(alternatives: readonly Matcher[], path: string): Promise<boolean> {
    const names = pathNames(path)
    this.#effort.steps += path.length
    for (const matches of alternatives) {
      const isMatch = matches(names, this.#effort)
      if (this.#effort.steps >= this.#pauseAt) await this.#pause()
      if (isMatch) return true
    }
    return false
  }

  /** For what else is done with paths. @throws KasError MANIFESTS_REFUSED */
  async spend(steps: number): Promise<void> {
    this.#effort.steps += steps
    if (this.#effort.steps >= this.#pauseAt) await this.#pause()
  }

  async #pause(): Promise<void> {
    const { steps } = this.#effort
    if (steps > maxSteps) throw refused('the globs take too long to compare with all files')
    await setImmediate()
    this.#pauseAt = steps + stepsAtOnce
  }
}

function isHidden(path: string): boolean {
  return path.startsWith('.') ? path.includes('/') : path.slice(0, path.lastIndexOf('/') + 1).includes('/.')
}

function refused(detail: string): KasError {
  return new KasError({ code: 'MANIFESTS_REFUSED', detail })
}
