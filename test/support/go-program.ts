import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const peers = new URL('../peers/', import.meta.url)
const cache = new URL('../../node_modules/.cache/', import.meta.url)
/** the first build also fetches its modules */
const buildTimeoutMs = 300_000

/** Reason why tests with a program in Go cannot run here: a value for tap's `skip`. */
export const withoutGo: string | false = spawnSync('go', ['version']).status === 0 ? false : 'needs go'

/**
 * Builds the program unless its sources have been built before, and returns its path.
 *
 * @param name - name of its folder in test/peers
 */
export async function buildGoProgram(name: string): Promise<string> {
  const sources = new URL(`${name}/`, peers)
  const hash = createHash('sha256')
  for (const file of (await readdir(sources)).sort()) {
    if (/\.go$|^go\.(mod|sum)$/.test(file)) hash.update(file).update(await readFile(new URL(file, sources)))
  }
  const folder = new URL(`${name}/${hash.digest('hex').slice(0, 16)}/`, cache)
  const binary = fileURLToPath(new URL(name, folder))
  if (existsSync(binary)) return binary
  await mkdir(folder, { recursive: true })
  const unfinished = `${binary}.${process.pid}` // two tests may build at once: the rename decides
  await promisify(execFile)('go', ['build', '-o', unfinished, '.'], {
    cwd: fileURLToPath(sources),
    timeout: buildTimeoutMs,
  })
  await rename(unfinished, binary)
  return binary
}
