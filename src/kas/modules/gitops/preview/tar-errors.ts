import { KasError } from '../../../../lib/errors.ts'
import { printableJson } from '../../../../lib/printable.ts'

/** Characters of a name that an error shows. */
const maxNameCharacters = 200

/** Returns the error of a tar that cannot be read. */
export function badTar(detail: string, cause?: unknown): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail: `tar: ${detail}` }, { cause })
}

/** Returns the error of an entry. @param name - of the entry, as the tar has it */
export function badEntry(name: string, detail: string): KasError {
  return badTar(`${shownName(name)}: ${detail}`)
}

/** Returns the error of a file that the paths choose, as a commit with it has it. */
export function refusedFile(name: string, detail: string): KasError {
  return new KasError({ code: 'MANIFESTS_REFUSED', detail: `${shownName(name)}: ${detail}` })
}

function shownName(name: string): string {
  return printableJson(name.length > maxNameCharacters ? `${name.slice(0, maxNameCharacters)}…` : name)
}
