import { setImmediate } from 'node:timers/promises'
import { KasError } from '../../../lib/errors.ts'
import { hasControls, printable } from '../../../lib/printable.ts'
import type { PathCF } from '../../../proto/gen/gitops_pb.ts'
import type { TreeFile, TreeFiles, TreeLink } from '../../repositories/tree.ts'
import { ComparedPath, type Glob, type Matcher, readGlob } from './glob-match.ts'

/** Files that an agent asks for. */
export interface FileChoice {
  readonly globs: readonly Glob[]
  /** full paths */
  readonly files: readonly string[]
  /** full path of a folder above all of them; empty: the root */
  readonly folder: string
}

/** patterns of all globs, after `{a,b}` are expanded: each is compared with each file */
const maxAlternatives = 200
/** steps of all comparisons, as `Effort` counts: one round takes at most a second of the event loop */
const maxSteps = 100_000_000
/** steps in one turn of the event loop: about 1 ms, and one comparison more */
const stepsAtOnce = 100_000
/** steps per unit of the agent's budget: 0.1 ms */
const stepsOfUnit = 10_000
/** steps for one file of the listing, which is built from its bytes */
const stepsOfFile = 40

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

export function tooManyFiles(maxFiles: number): KasError {
  return refused(`maximum number of files limit reached: ${maxFiles}`)
}

/** Gitaly passes paths to git as lines, and people read them on terminals. */
const unreadable = 'the path has a control character, or is not UTF-8: rename the file, or choose other paths'

/** Charges the agent that asked for the files. @returns undefined: go on; a promise: wait for it */
export type Spend = (units: number) => Promise<void> | undefined

/**
 * Returns the chosen files in the order in which stock kas sends them: glob by glob, then single files. Files in
 * folders that begin with a dot are left out.
 *
 * @param spend - charges units of about 0.1 ms
 * @throws KasError MANIFESTS_REFUSED if two globs match one file, a path has control characters, a single file is
 * missing, or a bound is exceeded
 * @throws errors of `spend`
 */
export async function chosenFiles(
  { globs, files }: FileChoice,
  tree: TreeFiles,
  maxFiles: number,
  spend: Spend = () => undefined,
): Promise<TreeFile[]> {
  const chosen = new Map<string, TreeFile>()
  const choose = (file: TreeFile) => {
    if (isUnreadable(file.path)) throw refused(`${printable(file.path)}: ${unreadable}`)
    if (chosen.size >= maxFiles) throw tooManyFiles(maxFiles)
    chosen.set(file.path, file)
  }
  const { matching, named } = await searchTree({ globs, files }, tree, { atMost: maxFiles + 1, spend })
  for (const file of matching.flat()) {
    if (chosen.has(file.path)) throw refused(`path visited more than once: ${file.path}`)
    choose(file)
  }
  for (const path of files) {
    const file = named.get(path)
    if (!file && tree.links?.some((link) => link.path === path)) continue
    if (!file) throw refused(`file/directory/ref not found: ${path}`)
    if (!isHidden(path) && !chosen.has(path)) choose(file)
  }
  return [...chosen.values()]
}

/**
 * Returns the chosen links and submodules, each once. Globs that match one twice are refused by its files, if it has
 * any.
 */
export async function chosenLinks(
  { globs, files }: FileChoice,
  { links = [] }: Pick<TreeFiles, 'links'>,
  spend: Spend = () => undefined,
): Promise<TreeLink[]> {
  if (links.length === 0) return []
  const { matching, named } = await searchTree({ globs, files }, links, { atMost: Number.POSITIVE_INFINITY, spend })
  const found = new Set([...matching.flat(), ...named.values()] as TreeLink[])
  return [...found].filter(({ path }) => !isHidden(path) && !isUnreadable(path))
}

interface Found {
  /** files per glob, in the order of the globs */
  readonly matching: readonly (readonly TreeFile[])[]
  /** files by path */
  readonly named: ReadonlyMap<string, TreeFile>
}

/**
 * Searches the files that each glob matches, and the single files. It goes file by file: each is built once from the
 * listing, its path is split once, and nothing else is kept.
 *
 * @param atMost - matches of all globs together, where a file may count twice: with so many, the round is refused
 */
async function searchTree(
  { globs, files }: Pick<FileChoice, 'globs' | 'files'>,
  tree: TreeFiles,
  { atMost, spend }: { readonly atMost: number; readonly spend: Spend },
): Promise<Found> {
  const wanted = new Set(files)
  const named = new Map<string, TreeFile>()
  const compared = globs.map(({ folder, alternatives }) => {
    return { prefix: folder === '' ? '' : `${folder}/`, alternatives, matching: [] as TreeFile[] }
  })
  const comparing = new Comparing(spend)
  let count = 0
  for (const file of tree) {
    if (count >= atMost) break
    comparing.begin()
    if (wanted.has(file.path)) named.set(file.path, file)
    const path = new ComparedPath(file.path)
    for (const { prefix, alternatives, matching } of isHidden(file.path) ? [] : compared) {
      if (!comparing.isBelow(prefix, file.path)) continue
      for (const matcher of alternatives) {
        const isMatch = comparing.matches(matcher, path)
        if (comparing.isDue) await comparing.pause()
        if (!isMatch) continue
        matching.push(file)
        count += 1
        break
      }
    }
    if (comparing.isDue) await comparing.pause()
  }
  await comparing.pause()
  return { matching: compared.map(({ matching }) => matching), named }
}

/** Compares paths in turn with other work, at the agent's expense, and with a bound. */
class Comparing {
  readonly #effort = { steps: 0 }
  readonly #spend: Spend
  #paidSteps = 0

  constructor(spend: Spend) {
    this.#spend = spend
  }

  get isDue(): boolean {
    return this.#effort.steps - this.#paidSteps >= stepsAtOnce
  }

  /** Begins with the next file. */
  begin(): void {
    this.#effort.steps += stepsOfFile
  }

  isBelow(prefix: string, path: string): boolean {
    this.#effort.steps += 1
    return path.startsWith(prefix)
  }

  matches(matcher: Matcher, path: ComparedPath): boolean {
    return matcher(path, this.#effort)
  }

  /** Charges the agent and lets others have their turn. @throws KasError MANIFESTS_REFUSED; errors of `spend` */
  async pause(): Promise<void> {
    const { steps } = this.#effort
    if (steps > maxSteps) throw refused('the globs take too long to compare with all files')
    const isDue = this.isDue
    await this.#spend((steps - this.#paidSteps) / stepsOfUnit)
    this.#paidSteps = steps
    if (isDue) await setImmediate()
  }
}

function isUnreadable(path: string): boolean {
  return path.includes('\ufffd') || hasControls(path)
}

/** True if a folder of the path begins with a dot, or the path itself, if it has folders. */
export function isHidden(path: string): boolean {
  return path.startsWith('.') ? path.includes('/') : path.slice(0, path.lastIndexOf('/') + 1).includes('/.')
}

function refused(detail: string): KasError {
  return new KasError({ code: 'MANIFESTS_REFUSED', detail })
}
