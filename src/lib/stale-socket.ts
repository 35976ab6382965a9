import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { lstat, mkdtemp, readdir, rename, rmdir, unlink } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { basename, dirname, join } from 'node:path'

/** Length of a path that fits in a socket's address, without its end. */
export const maxSocketPathBytes = 107
/** Length of a folder that leaves room for the socket of a claim: `/.kas.12345678/12345678`. */
export const maxSocketFolderBytes = maxSocketPathBytes - 23

/** Bound of attempts. The first one removes dead claims; each later one means that another process was faster. */
const maxRounds = 10

/**
 * Claims the path of a Unix socket, and removes a socket of a killed process there, on which nothing listens. Any other
 * file stays. No other claim is granted until the returned function is called. So no process takes a socket that is
 * about to listen for a dead one.
 *
 * @throws Error EADDRINUSE if another kas listens there, or is about to; ENAMETOOLONG; the file system's error
 */
export async function claimSocket(path: string): Promise<() => Promise<void>> {
  if (Buffer.byteLength(dirname(path)) > maxSocketFolderBytes) {
    throw failure('ENAMETOOLONG', `the folder of ${path} is longer than ${maxSocketFolderBytes} bytes`)
  }
  const claim = await Claim.take(path)
  try {
    await removeStaleSocket(path)
  } catch (error) {
    await claim.release()
    throw error
  }
  return () => claim.release()
}

/**
 * A folder with one socket, which answers as long as its process lives. A folder is renamed only over one that is
 * absent or empty, so a claim is exclusive. The socket's name is never used again, so a process that removes a dead one
 * cannot remove a live one.
 */
class Claim {
  readonly #folder: string
  readonly #name: string
  readonly #server: Server

  private constructor(folder: string, name: string, server: Server) {
    this.#folder = folder
    this.#name = name
    this.#server = server
  }

  static async take(path: string): Promise<Claim> {
    const folder = join(dirname(path), `.kas.${shortHash(basename(path))}`)
    const own = await mkdtemp(join(dirname(path), '.kas-'))
    const name = randomBytes(4).toString('hex')
    const server = createServer((socket) => socket.destroy())
    try {
      await once(server.listen({ path: join(own, name) }), 'listening')
      for (let round = 0; !(await moved(own, folder)); round++) {
        if (round === maxRounds) throw taken(path)
        await removeDead(folder, path)
      }
      return new Claim(folder, name, server)
    } catch (error) {
      await close(server) // also removes its file
      await rmdir(own)
      throw error
    }
  }

  async release(): Promise<void> {
    await unlink(join(this.#folder, this.#name)).catch(unless('ENOENT'))
    await rmdir(this.#folder).catch(unless('ENOTEMPTY', 'EEXIST', 'ENOENT')) // another process may have it now
    await close(this.#server)
  }
}

/** @returns false if there is a folder that is not empty */
async function moved(from: string, to: string): Promise<boolean> {
  return rename(from, to).then(() => true, unless('ENOTEMPTY', 'EEXIST'))
}

/** @throws Error EADDRINUSE if a claim of the folder is alive */
async function removeDead(folder: string, path: string): Promise<void> {
  const names = (await readdir(folder).catch(unless('ENOENT'))) || []
  for (const name of names) {
    const file = join(folder, name)
    if (await answers(file)) throw taken(path)
    await unlink(file).catch(unless('ENOENT'))
  }
}

async function removeStaleSocket(path: string): Promise<void> {
  const stats = await lstat(path).catch(unless('ENOENT'))
  if (!stats) return
  if (!stats.isSocket()) throw failure('EADDRINUSE', `${path} is there, and no socket`)
  if (await answers(path)) throw taken(path)
  await unlink(path)
}

/** True if a process listens on the socket, or if this user may not connect to it. */
async function answers(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code !== 'ECONNREFUSED' && code !== 'ENOENT'
  } finally {
    socket.destroy()
  }
}

function taken(path: string): Error {
  return failure('EADDRINUSE', `another kas listens on ${path}`)
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  await closed
}

function unless(...codes: string[]): (error: NodeJS.ErrnoException) => false {
  return (error) => {
    if (codes.includes(error.code ?? '')) return false
    throw error
  }
}

/** The hash is short because a socket's address is. */
function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}
