import { rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { tokenHash } from '../../../lib/token-hash.ts'
import type { DirectoryDocument } from '../directory-document.ts'
import { readOwnFile } from '../own-file.ts'
import { hashOf } from '../short-hash.ts'
import { newToken } from '../token.ts'
import { writeAtomically } from '../write-atomically.ts'

/** Bound above any token. */
const maxTokenBytes = 4096

export interface MachineTokenRequest {
  readonly user: { readonly id: number; readonly username: string }
  readonly name: string
  /** undefined: unchanged, and `newExpires` for a new token; null: never */
  readonly expires: string | null | undefined
  /** end of a new token; undefined: never */
  readonly newExpires: string | undefined
  /** ms since 1970 */
  readonly now: number
}

export interface MachineToken {
  readonly token: string
  readonly isNew: boolean
  /** undefined: never */
  readonly expires: string | undefined
  /** number of tokens of this name that are void from now on */
  readonly replaced: number
}

/**
 * Finds the one token of this name that a user has. A token of `known` is kept if it is still valid and has this name,
 * or none yet. Otherwise a new token replaces all of this name.
 */
export function machineToken(
  directory: DirectoryDocument,
  known: readonly string[],
  { user, name, expires, newExpires, now }: MachineTokenRequest,
): MachineToken {
  const hashes = new Map(known.map((token) => [tokenHash(token), token]))
  const all = directory.tokensOf('users', user.id)
  const mayGoOn = all.filter(
    (each) => hashes.has(hashOf(each)) && (each.expires === undefined || Date.parse(each.expires) > now),
  )
  const kept = mayGoOn.find((each) => each.name === name) ?? mayGoOn.find((each) => each.name === undefined)
  const isNameFree = all.every((each) => each.name !== name)
  if (!kept) {
    const replaced = directory.dropTokens('users', user.id, (each) => each.name === name)
    const end = expires === undefined ? newExpires : (expires ?? undefined)
    const { token, entry } = newToken('user', { name, expires: end })
    directory.addToken('users', user.id, entry)
    return { token, isNew: true, expires: end, replaced }
  }
  const change = {
    ...(kept.name === undefined && isNameFree ? { name } : {}),
    ...(expires === undefined || (expires ?? undefined) === kept.expires ? {} : { expires }),
  }
  if (Object.keys(change).length > 0) directory.changeToken('users', user.id, kept, change)
  const end = expires === undefined ? kept.expires : (expires ?? undefined)
  return { token: hashes.get(hashOf(kept)) as string, isNew: false, expires: end, replaced: 0 }
}

/**
 * A new token in a file beside the kubeconfig that is to contain it. The directory knows the token before the
 * kubeconfig is written. If the command is killed in between, the next run finds the token here.
 */
export class TokenOnItsWay {
  readonly #file: string

  /** @param kubeconfig - without links */
  constructor(kubeconfig: string, userId: number) {
    this.#file = join(dirname(kubeconfig), `.${basename(kubeconfig)}.kas-token-${userId}`)
  }

  async read(): Promise<string | undefined> {
    return (await readOwnFile(this.#file, maxTokenBytes))?.bytes.toString('utf8').trim()
  }

  async keep(token: string): Promise<void> {
    await writeAtomically(this.#file, `${token}\n`, { isSecret: true })
  }

  async remove(): Promise<void> {
    await rm(this.#file, { force: true })
  }
}
