import { constants, type Stats } from 'node:fs'
import { lstat, open, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'

/** bound of links, as in the kernel */
const maxLinks = 40

const isAbsent = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

/**
 * Returns the path to which a name leads, whether it exists or not. Only links of the caller or of root are followed.
 * In a folder that all users may write, another user's link could lead anywhere.
 *
 * @throws Error that says what to do
 */
export async function ownPath(name: string, left = maxLinks): Promise<string> {
  const folder = await realpath(dirname(name)).catch((error) => {
    if (isAbsent(error)) return resolve(dirname(name))
    throw error
  })
  const path = join(folder, basename(name))
  const found = await foundAt(path)
  if (!found?.isSymbolicLink()) return path
  if (found.uid !== 0) refuseForeign(path, found, 'this link')
  if (left === 0) throw new Error(`${name} leads from link to link`)
  return await ownPath(resolve(folder, await readlink(path)), left - 1)
}

export interface OwnFile {
  readonly bytes: Buffer
  readonly mode: number
}

/**
 * Reads a file that contains secrets, or is to contain them. It must be a file of the caller. Even root puts no token
 * into a file of another user, who would keep it. Other kinds are refused before they are opened: a pipe would wait for
 * a writer, and a device may act.
 *
 * @param path - without links
 * @returns undefined: there is none
 * @throws Error that says what to do
 */
export async function readOwnFile(path: string, maxBytes: number): Promise<OwnFile | undefined> {
  if (!(await fileAt(path))) return undefined
  // a file that replaces it meanwhile causes no wait, and is not followed as a link
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
  const handle = await open(path, flags)
  try {
    const found = await handle.stat()
    refuseNoFile(path, found)
    refuseForeign(path, found, 'it')
    if (found.size > maxBytes) throw new Error(`${path} has more than ${maxBytes} bytes`)
    return { bytes: await handle.readFile(), mode: found.mode & 0o777 }
  } finally {
    await handle.close()
  }
}

/**
 * Returns the file's state; undefined: there is no file.
 *
 * @throws Error if it is no file, or a link
 */
export async function fileAt(path: string): Promise<Stats | undefined> {
  const found = await foundAt(path)
  if (found) refuseNoFile(path, found)
  return found
}

async function foundAt(path: string): Promise<Stats | undefined> {
  return await lstat(path).catch((error) => {
    if (isAbsent(error)) return undefined
    throw error
  })
}

function refuseNoFile(path: string, found: Stats): void {
  if (found.isFile()) return
  const kind = found.isDirectory()
    ? 'folder'
    : found.isFIFO()
      ? 'pipe'
      : found.isSocket()
        ? 'socket'
        : found.isSymbolicLink()
          ? 'link'
          : 'device'
  throw new Error(`${path} is a ${kind}: nothing is written there. Name a file, or one that is not there yet`)
}

function refuseForeign(path: string, { uid }: Stats, what: string): void {
  const own = process.geteuid?.() ?? uid
  if (uid === own) return
  throw new Error(
    `${path} belongs to another user (uid ${uid}, you are ${own}): no token goes there. Name another file, or, if ${what} is to be yours: chown ${what === 'it' ? '' : '-h '}${own} ${path}`,
  )
}
