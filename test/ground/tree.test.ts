import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

/** Checks the project's own tree. Each run of the tests does so, `npm run check` before a commit too. */

const root = join(import.meta.dirname, '..', '..')
/** ms; time of one of the two on a busy machine */
const timeoutMs = 120_000

for (const [script, promise] of [
  ['types', 'has no wrong type'],
  ['lint', 'breaks no rule, and is formatted, biome.json too'],
] as const) {
  t.test(`the tree ${promise} (npm run ${script})`, { timeout: timeoutMs }, async (t) => {
    // without the hook of tap's command for Node programs: tsc cannot start with it
    const args = ['-u', 'NODE_OPTIONS', 'npm', 'run', '--silent', script]
    const { status, stdout, stderr } = spawnSync('env', args, { cwd: root, encoding: 'utf8' })
    t.equal(status, 0, `${stdout}${stderr}`)
  })
}
