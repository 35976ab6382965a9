import { createHash } from 'node:crypto'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'

/** Of what a source deletes for a commit, once somebody approves that and nothing else. Nothing: empty. */
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
