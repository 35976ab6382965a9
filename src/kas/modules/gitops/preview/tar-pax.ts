import { badTar } from './tar-errors.ts'

/** Length of a record of pax, in bytes. */
const lengthForm = /^[1-9]\d{0,5}$/
const space = 0x20
const lineFeed = 0x0a

/**
 * Checks the records of a header of pax: `LENGTH KEY=VALUE`, each a line. None of them changes how long the content of an
 * entry is.
 *
 * @throws KasError BAD_REQUEST
 */
export function checkPax(content: Buffer): void {
  for (let at = 0; at < content.length; ) {
    const from = content.indexOf(space, at)
    const length = content.toString('latin1', at, Math.max(at, from))
    const end = at + Number(length)
    const key = content.toString('utf8', from + 1, end).split('=', 1)[0] as string
    const isRecord = lengthForm.test(length) && from + 1 + key.length < end && content[end - 1] === lineFeed
    if (!isRecord) throw badTar('a header of pax is damaged')
    if (key.startsWith('GNU.sparse.')) throw badTar('it has a sparse file: pack without --sparse')
    if (key === 'size') throw badTar('it has the size of a file in a header of pax: the file is too large')
    at = end
  }
}
