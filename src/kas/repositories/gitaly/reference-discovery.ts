import { KasError } from '../../../lib/errors.ts'
import { Branches } from '../branches.ts'
import type { CommitId } from '../repositories.ts'

const serviceLine = '# service=git-upload-pack'
const masterRef = 'refs/heads/master'
/** name that an empty repository advertises instead of refs */
const noRefs = 'capabilities^{}'
const commitForm = /^([0-9a-f]{40}|[0-9a-f]{64})$/

/** Bound of git's own, in bytes, including the length; longer lines are malformed. */
const maxLineBytes = 65_520

/** Finds a branch or a tag in git's advertisement of refs (pkt-lines of git-upload-pack), which comes in pieces. */
export class ReferenceDiscovery {
  readonly #wanted: string | undefined
  #rest: Buffer = Buffer.alloc(0)
  #part: 'service' | 'flush' | 'refs' | 'over' = 'service'
  #hasRefs = false
  readonly #branches = new Branches()
  #wantedAt: CommitId | undefined
  /** the line after the wanted tag was read: it gives the commit of an annotated tag */
  #isPeeled = false
  #headAt: CommitId | undefined
  #masterAt: CommitId | undefined
  /** branch that HEAD names, from the capabilities of the first line */
  #headNames: string | undefined

  /** @param ref - undefined: the branch that HEAD names, else `master`, else the only branch */
  constructor(ref: string | undefined) {
    this.#wanted = ref
  }

  get #found(): CommitId | undefined {
    return this.#wanted === undefined ? this.#headAt : this.#wantedAt
  }

  /** Name of the branch whose commit `end` returns, if no ref was wanted; undefined: it is not known. */
  get branch(): string | undefined {
    const followed = this.#masterAt ? masterRef : this.#branches.only?.ref
    const ref = this.#headAt ? this.#headNames : followed
    return this.#wanted === undefined ? ref?.replace(/^refs\/heads\//, '') : undefined
  }

  /** True if the commit is known, also before the end. */
  get isFound(): boolean {
    return this.#found !== undefined && (this.#isPeeled || !this.#wanted?.startsWith('refs/tags/'))
  }

  /** @throws KasError REPOSITORY_FAILED if the advertisement is malformed */
  take(bytes: Uint8Array): void {
    this.#rest = this.#rest.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#rest, bytes])
    let at = 0
    while (this.#rest.length - at >= 4) {
      const digits = this.#rest.toString('latin1', at, at + 4)
      const length = /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : Number.NaN
      if (!(length === 0 || (length >= 4 && length <= maxLineBytes))) throw malformed('a line has no length')
      if (this.#rest.length - at < length) break
      if (length === 0) this.#flush()
      else this.#line(this.#rest.toString('utf8', at + 4, at + length).replace(/\n$/, ''))
      at += Math.max(length, 4)
    }
    this.#rest = this.#rest.subarray(at)
  }

  /**
   * Returns the branch's commit once everything was read; `undefined` if the repository is empty.
   *
   * @throws KasError REF_NOT_FOUND, REPOSITORY_FAILED if the end is missing
   */
  end(): CommitId | undefined {
    if (this.#found) return this.#found
    if (this.#part !== 'over' || this.#rest.length > 0) throw malformed('it ends in the middle')
    if (!this.#hasRefs) return undefined
    if (this.#wanted === undefined && this.#masterAt) return this.#masterAt
    if (this.#wanted === undefined && this.#branches.only) return this.#branches.only.commit
    throw this.#branches.notFound(this.#wanted ?? 'HEAD')
  }

  #flush(): void {
    if (this.#part === 'flush') this.#part = 'refs'
    else if (this.#part === 'refs') this.#part = 'over'
    else throw malformed('a flush is out of place')
  }

  #line(line: string): void {
    if (this.#part === 'service' && line === serviceLine) this.#part = 'flush'
    else if (this.#part === 'refs') this.#ref(line)
    else throw malformed('a line is out of place')
  }

  #ref(line: string): void {
    if (line.startsWith('shallow ')) return
    const [ref = '', capabilities = ''] = line.split('\0', 2)
    this.#headNames ??= /(?:^| )symref=HEAD:(\S+)/.exec(capabilities)?.[1]
    const space = ref.indexOf(' ')
    const commit = ref.slice(0, space)
    if (!commitForm.test(commit)) throw malformed('a line is no ref')
    const name = ref.slice(space + 1)
    if (name === noRefs) return
    this.#hasRefs = true
    if (this.#wantedAt) this.#isPeeled = true
    if (name === `${this.#wanted}^{}`) this.#wantedAt = commit as CommitId
    this.#branches.add(name, commit as CommitId)
    if (name === this.#wanted) this.#wantedAt = commit as CommitId
    else if (name === 'HEAD') this.#headAt = commit as CommitId
    else if (name === masterRef) this.#masterAt = commit as CommitId
  }
}

function malformed(what: string): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly's advertisement of refs is malformed: ${what}` })
}
