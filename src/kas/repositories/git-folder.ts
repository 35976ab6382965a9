import { lstat, mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { KasError } from '../../lib/errors.ts'
import type { Turns } from '../../lib/turns.ts'
import { askGit, type GitQuestion } from './ask-git.ts'
import { type Branch, Branches } from './branches.ts'
import type { DiskUse } from './disk-use.ts'
import { uploadPackOptions } from './git-environment.ts'
import { GitFailure, type GitProcessOptions, type GitRun, runGit } from './git-process.ts'
import { type CommitId, isCommitId } from './repositories.ts'
import { isOnThisMachine, type RepositoryAddress } from './repository-url.ts'
import { TreeListings } from './tree-listings.ts'

export interface GitFolderComponents {
  readonly address: RepositoryAddress
  readonly turns: Turns<unknown>
  /** counts the folder's bytes with those of others; absent: nothing counts them */
  readonly disk?: DiskUse | undefined
  /** source for which its processes take turns and its bytes count */
  readonly source: unknown
  /**
   * Turns that a fetch takes before its process takes one: a fetch may last as long as any git. Absent: it takes none
   */
  readonly fetches?: { readonly turns: Turns<unknown>; readonly source: unknown }
}

/** Bound of an answer that is read as a whole: some refs, or 100 paths. In bytes. */
const maxAnswerBytes = 1024 * 1024

/** Depth of a history, in commits: concurrent pushes overtake one another by a few. */
const historyDepth = 100
const partial = [`--depth=${historyDepth}`, '--filter=tree:0']
/** Name of the remote in git's settings: a partial fetch needs one and takes no path. */
const named = 'history'
/** Bound of the commits of a history: a merge has several parents. */
const maxHistory = 10_000

/** Ref of the fetched branch in this folder. */
const ownRef = 'refs/kas/head'

/** One bare repository on the disk, and the git processes that work on it. */
export class GitFolder {
  readonly path: string
  readonly #components: GitFolderComponents
  readonly #options: GitProcessOptions
  #isRemoved = false
  readonly #listings = new TreeListings(({ commit, take, signal }) =>
    this.#ask(() => ['ls-tree', '-z', '-l', '--full-tree', commit, '--', ...take()], signal),
  )

  constructor(path: string, components: GitFolderComponents, options: GitProcessOptions) {
    this.path = path
    this.#components = components
    this.#options = options
  }

  /** Creates the repository if it does not exist. */
  async prepare(signal: AbortSignal): Promise<void> {
    await mkdir(this.path, { recursive: true, mode: 0o700 })
    await this.#ask(['init', '--bare', '--quiet'], signal)
  }

  /**
   * Polls the branch at the remote; `undefined` if the repository is empty. If HEAD names a missing branch and there is
   * exactly one branch, that branch is returned.
   *
   * @throws KasError REF_NOT_FOUND if there are branches, but not this one; REPOSITORY_FAILED
   */
  async remoteHead(signal: AbortSignal): Promise<Branch | undefined> {
    const { url, defaultBranch, ref } = this.#components.address
    if (ref !== undefined) return await this.#remoteRef(ref, signal)
    const wanted = defaultBranch === undefined ? 'HEAD' : `refs/heads/${defaultBranch}`
    const readHead = async () =>
      parseHead(await this.#ask(['ls-remote', '--symref', '--', url, wanted], signal), wanted)
    const found = await readHead()
    if (found) return found
    const branches = await this.#remoteBranches(signal)
    if (branches.isEmpty) return undefined
    const pushed = await readHead() // a push may have come between the two
    if (pushed) return pushed
    if (defaultBranch !== undefined) throw branches.notFound(wanted)
    if (branches.only) return branches.only
    throw branches.notFound(wanted, await namedByHead(url))
  }

  /**
   * Polls a named ref; a tag gives the commit that it points to. A commit id is returned as it is: its fetch shows
   * whether it exists.
   */
  async #remoteRef(ref: string, signal: AbortSignal): Promise<Branch | undefined> {
    if (isCommitId(ref)) return { ref, commit: ref }
    const { url } = this.#components.address
    const listed = await this.#ask(['ls-remote', '--', url, ref, `${ref}^{}`], signal)
    const found = parseHead(listed, `${ref}^{}`) ?? parseHead(listed, ref)
    if (found) return { ref, commit: found.commit }
    const branches = await this.#remoteBranches(signal)
    if (branches.isEmpty) return undefined
    throw branches.notFound(ref)
  }

  async #remoteBranches(signal: AbortSignal): Promise<Branches> {
    const { address } = this.#components
    const reading = new BranchReading()
    const argv = ['ls-remote', '--heads', '--', address.url]
    await this.#run({ argv, address, take: (bytes) => reading.take(bytes), signal })
    return reading.branches
  }

  /**
   * Fetches the newest commit of a branch, or another ref, and returns its id.
   *
   * @param what - the commit with its files; or `historyDepth` commits back, without files if the server supports that
   */
  async fetch(ref: string, signal: AbortSignal, what: 'files' | 'history' = 'files'): Promise<CommitId> {
    const { url } = this.#components.address
    const usual = [
      '--no-tags',
      '--no-write-fetch-head',
      '--no-recurse-submodules',
      '--quiet',
      ...uploadPackOptions(url),
    ]
    const isHistory = what === 'history'
    if (isHistory) await this.#ask(['config', `remote.${named}.url`, url], signal)
    const from = isHistory ? [...partial, ...usual, '--', named] : ['--depth=1', ...usual, '--', url]
    const argv = ['fetch', ...from, `+${ref}:${ownRef}`]
    const { fetches } = this.#components
    const fetch = () => this.#ask(argv, signal)
    try {
      if (fetches) await fetches.turns.run(fetches.source, signal, fetch)
      else await fetch()
    } catch (error) {
      if (!isCommitId(ref) || !/not our ref|couldn't find remote ref|no such remote ref/.test(String(error)))
        throw error
      throw new KasError({ code: 'REF_NOT_FOUND', ref }, { cause: error })
    }
    const written = await this.#writtenHead()
    if (ref.startsWith('refs/heads/') && isCommitId(written)) return written // a branch points to a commit
    const commit = await this.fetchedCommit(signal)
    if (!commit) throw new KasError({ code: 'REPOSITORY_FAILED', detail: `${ref} is no commit` })
    return commit
  }

  /** The id that the last fetch wrote to the ref's file, without a git process. Empty: git stores the ref elsewhere. */
  async #writtenHead(): Promise<string> {
    return (await readFile(join(this.path, ownRef), 'utf8').catch(() => '')).trim()
  }

  /** Returns ids of `head` and of fetched commits before it. @throws KasError REPOSITORY_FAILED */
  async history(head: CommitId, signal: AbortSignal): Promise<readonly string[]> {
    const listed = await this.#ask(['rev-list', `--max-count=${maxHistory}`, head, '--'], signal)
    return listed.split('\n')
  }

  /** Returns the commit of the last fetch into this folder, also by an earlier process. */
  async fetchedCommit(signal: AbortSignal): Promise<CommitId | undefined> {
    const format = '--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)' // *: the tag's target
    const listed = await this.#ask(['for-each-ref', format, '--', ownRef], signal)
    const match = /\bcommit ([0-9a-f]{40,64})\b/.exec(listed)
    return match?.[1] as CommitId | undefined
  }

  /** Returns a file at a commit; see Repositories.file. */
  async file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const entry = await this.#listings.entry(commit, path, signal)
    if (!entry) return undefined
    const { mode, blob, size } = entry
    const invalid = (detail: string) => new KasError({ code: 'CONFIGURATION_INVALID', detail: `${path}: ${detail}` })
    if (mode !== '100644' && mode !== '100755') throw invalid('is not a file')
    if (size > maxBytes) throw invalid(`has ${size} bytes, more than ${maxBytes}`)
    return await this.#question({ ask: (git) => git.binaryCatFile(['blob', blob]), maxBytes: size, signal })
  }

  /** Measures the bytes on the disk. */
  async size(): Promise<number> {
    const bytes = await folderBytes(this.path)
    if (!this.#isRemoved) this.#components.disk?.set(this, this.#components.source, bytes)
    return bytes
  }

  /** Removes the folder. A `size` that runs meanwhile counts no longer. */
  async remove(): Promise<void> {
    this.#isRemoved = true
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 })
    this.#components.disk?.delete(this)
  }

  /**
   * Runs git on the fetched objects, writes `input` to its stdin and passes its output on.
   *
   * @throws KasError REPOSITORY_FAILED, or what `take` throws
   */
  async pipe(argv: readonly string[], input: string, how: Pick<GitRun, 'take' | 'signal'>): Promise<void> {
    await this.#run({ argv, input, ...how })
  }

  #ask(argv: readonly string[] | (() => readonly string[]), signal: AbortSignal): Promise<string> {
    const ask: GitQuestion<string>['ask'] = (git) => git.raw([...(typeof argv === 'function' ? argv() : argv)])
    return this.#question({ ask, maxBytes: maxAnswerBytes, signal })
  }

  #question<Answer>(question: Omit<GitQuestion<Answer>, 'address'>): Promise<Answer> {
    const { address } = this.#components
    return this.#inTurn(() => askGit(this.path, { ...question, address }, this.#options), question.signal)
  }

  #run(run: GitRun): Promise<void> {
    return this.#inTurn(() => runGit(this.path, run, this.#options), run.signal)
  }

  /** @throws KasError REPOSITORY_FAILED, or one that `work` throws; the signal's reason */
  async #inTurn<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { turns, source } = this.#components
    try {
      return await turns.run(source, signal, work)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof KasError) throw error
      const isRefused = error instanceof GitFailure && error.isRefusal
      throw new KasError({ code: 'REPOSITORY_FAILED', detail: reasonOf(error), isRefused }, { cause: error })
    }
  }
}

function parseHead(listed: string, wanted: string): Branch | undefined {
  let ref = wanted
  let commit: string | undefined
  for (const line of listed.split('\n')) {
    const [left = '', name] = line.split('\t')
    if (name !== wanted) continue
    if (left.startsWith('ref: ')) ref = left.slice('ref: '.length)
    else if (/^[0-9a-f]{40,64}$/.test(left)) commit = left
  }
  return commit === undefined ? undefined : { ref, commit: commit as CommitId }
}

/** Bound of a line of `ls-remote`: refs are made of file names, each of at most 255 bytes. */
const maxRefLineBytes = 8192

/** Parses branches from the output of `git ls-remote`, piece by piece: there may be millions. */
class BranchReading {
  readonly branches = new Branches()
  #begun = ''

  /** @throws GitFailure */
  take(bytes: Buffer): void {
    const lines = (this.#begun + bytes.toString('latin1')).split('\n')
    this.#begun = lines.pop() ?? ''
    if (this.#begun.length > maxRefLineBytes) throw new GitFailure('git ls-remote: a line is too long')
    for (const line of lines) {
      const [, commit, ref] = /^([0-9a-f]{40,64})\t(.+)$/.exec(line) ?? []
      if (ref !== undefined) this.branches.add(Buffer.from(ref, 'latin1').toString(), commit as CommitId)
    }
  }
}

/** Returns the branch that HEAD names in a repository on this machine. Other servers do not name a missing branch. */
async function namedByHead(url: string): Promise<string | undefined> {
  if (!isOnThisMachine(url)) return undefined
  const path = url.startsWith('/') ? url : fileURLToPath(url)
  for (const file of [join(path, 'HEAD'), join(path, '.git', 'HEAD')]) {
    const text = await readFile(file, 'utf8').catch(() => '')
    const [, ref] = /^ref: (refs\/[^\s\0]{1,250})\s*$/.exec(text) ?? []
    if (ref !== undefined) return ref
  }
  return undefined
}

/** Returns the line with the reason, without the rest of git's output. */
function reasonOf(error: unknown): string {
  const lines = (error as Error).message.split('\n').filter((line) => line.trim() !== '')
  return (lines.find((line) => /^(fatal|error|ERROR|remote):/.test(line)) ?? lines[0] ?? 'git failed').slice(0, 300)
}

async function folderBytes(folder: string): Promise<number> {
  let total = 0
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => [])) {
    if (!entry.isFile()) continue
    total += await lstat(join(entry.parentPath, entry.name)).then(
      (stats) => stats.size,
      () => 0, // the file was removed meanwhile
    )
  }
  return total
}
