import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { releaseOf, releaseProblems } from './release-checks.ts'

/**
 * `npm run release -- FOLDER`: checks whether this output folder of `npm run package` and `npm run images` is ready for
 * release as the version of package.json (doc/internals/releasing.md).
 */

const usage = 'usage: npm run release -- FOLDER'
const root = resolve(import.meta.dirname, '../..')

try {
  const { positionals } = parseArgs({ args: process.argv.slice(2), allowPositionals: true, options: {} })
  const [folder] = positionals
  if (folder === undefined || positionals.length > 1) throw new Error(`expected one folder, got ${positionals.length}`)
  const release = await releaseOf(root, resolve(folder))
  for (const [name, problems] of await releaseProblems(release)) {
    process.stdout.write(
      problems.length === 0 ? `ok    ${name}\n` : problems.map((one) => `WRONG ${name}: ${one}\n`).join(''),
    )
    if (problems.length > 0) process.exitCode = 1
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${usage}\n`)
  process.exitCode = 2
}
