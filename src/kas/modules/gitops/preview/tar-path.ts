import { badEntry } from './tar-errors.ts'

/** Characters of the path of an entry, and of the target of a link, as in Linux. */
export const maxPathCharacters = 4096

/**
 * Returns the path of an entry in the repository: from its root, without `.`; empty: the root itself.
 *
 * @throws KasError BAD_REQUEST: the path is absolute, leads upwards, or is too long
 */
export function tarPath(name: string): string {
  if (name.length > maxPathCharacters) throw badEntry(name, `its path has more than ${maxPathCharacters} characters`)
  if (name.startsWith('/')) throw badEntry(name, 'its path is absolute: pack from the root of the repository')
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw badEntry(name, 'its path leads out of the repository')
  return parts.join('/')
}
