import { createHash } from 'node:crypto'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'

/** Approved plan of a source, as its round found it. It can be used once. */
export class ApprovedPlan {
  /** of the plan; empty: nothing is approved */
  readonly digest: string
  readonly #use: (signal: AbortSignal) => Promise<void>
  #used: Promise<void> | undefined

  /** @param use - removes the approval. @throws: it stays, or another plan is approved by now */
  constructor(digest: string, use: (signal: AbortSignal) => Promise<void>) {
    this.digest = digest
    this.#use = use
  }

  /** Uses up the approval: before a deletion by it, and when it can match no plan. @throws: nothing may be deleted */
  use(signal: AbortSignal): Promise<void> {
    this.#used ??= this.#use(signal)
    return this.#used
  }
}

/** Returns the digest of a source's deletions for one commit, which an approval names. Empty: no deletions. */
export function planDigest(
  { id, commit }: { readonly id: string; readonly commit: string },
  deletes: readonly { readonly key: ObjectKey; readonly uid: string; readonly dependents?: string }[],
): string {
  if (deletes.length === 0) return ''
  const lines = deletes
    .map(({ key, uid, dependents }) => `${keyText(key)} ${uid}${dependents ? ` ${dependents}` : ''}`)
    .sort()
  return createHash('sha256')
    .update(JSON.stringify([id, commit, lines]))
    .digest('hex')
}
