import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Limit of runs at once in one project folder; more would be a mistake. */
const maxRuns = 20
const ownerFile = 'owner.json'

/** The folder of one `npm start`: secrets, settings, logs. `.run/1`, `.run/2` and so on, each with one living owner. */
export interface StateFolder {
  readonly path: string
  /** 1, 2, ...: the lowest without a living start */
  readonly number: number
}

/**
 * Claims the lowest free number below `root` for process `pid`, after the removal of a dead start's folder there.
 *
 * @throws Error if too many run
 */
export async function claimStateFolder(root: string, pid = process.pid): Promise<StateFolder> {
  await mkdir(root, { recursive: true, mode: 0o700 })
  await removeDead(root, join(root, `old-${pid}`))
  const fresh = join(root, `new-${pid}`)
  await mkdir(fresh, { mode: 0o700 })
  await writeFile(join(fresh, ownerFile), JSON.stringify({ pid }), { mode: 0o600 })
  for (let number = 1; number <= maxRuns; number++) {
    const path = join(root, String(number))
    if (await renamed(fresh, path)) return { path, number }
  }
  await rm(fresh, { recursive: true, force: true })
  throw new Error(`${maxRuns} starts run in ${root} already`)
}

/** Returns the numbers below `root` whose owner lives, lowest first. */
export async function livingStateFolders(root: string): Promise<StateFolder[]> {
  const names = await readdir(root).catch(() => [])
  const folders = names
    .filter((name) => /^[1-9]\d?$/.test(name))
    .map((name) => ({ path: join(root, name), number: Number(name) }))
    .sort((a, b) => a.number - b.number)
  const living = await Promise.all(folders.map(async ({ path }) => isAlive(await ownerOf(path))))
  return folders.filter((_, i) => living[i])
}

/**
 * Moves folders away before it removes them, and checks them there again: another start may have claimed one meanwhile.
 */
async function removeDead(root: string, aside: string): Promise<void> {
  await rm(aside, { recursive: true, force: true })
  for (const name of await readdir(root)) {
    const path = join(root, name)
    const owner = await ownerOf(path)
    if (owner === undefined || isAlive(owner) || !(await renamed(path, aside))) continue
    if ((await ownerOf(aside)) === owner) await rm(aside, { recursive: true, force: true })
    else await renamed(aside, path)
  }
}

/** Renames a folder. A rename replaces no folder with content, which makes the claim exclusive. */
async function renamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    if (['ENOTEMPTY', 'EEXIST', 'ENOENT', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}

async function ownerOf(path: string): Promise<number | undefined> {
  try {
    const { pid } = JSON.parse(await readFile(join(path, ownerFile), 'utf8')) as { pid?: unknown }
    return typeof pid === 'number' ? pid : undefined
  } catch {
    return undefined
  }
}

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' // there, but another user's
  }
}
