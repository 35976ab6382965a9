import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..', '..')

/** Returns the content of all files, by their path below `dir`. */
function contents(dir: string): Record<string, string> {
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(dir, path)).isFile(),
  )
  return Object.fromEntries(paths.sort().map((path) => [path, readFileSync(join(dir, path), 'utf8')]))
}

for (const folder of ['src/proto', 'test/contract/modules/echo']) {
  t.test(`${folder}: the generated code is what the .proto files give, offline`, async (t) => {
    const dir = t.testdir()
    const source = join(root, folder)
    const isInput = (path: string) => path !== join(source, 'gen') && !path.endsWith('.ts')
    cpSync(source, dir, { recursive: true, filter: isInput })
    const { status, stderr } = spawnSync(join(root, 'node_modules', '.bin', 'buf'), ['generate'], {
      cwd: dir,
      encoding: 'utf8',
      env: {
        ...process.env,
        PATH: `${join(root, 'node_modules', '.bin')}:${process.env.PATH}`,
        HTTPS_PROXY: 'http://127.0.0.1:1',
      },
    })
    t.equal(status, 0, stderr)
    const fresh = contents(join(dir, 'gen'))
    const present = contents(join(source, 'gen'))
    t.ok(Object.keys(fresh).length > 0)
    t.strictSame(Object.keys(fresh), Object.keys(present))
    for (const [path, content] of Object.entries(present)) {
      t.equal(fresh[path] === content, true, `${path} is current (else: npm run proto)`)
    }
  })
}
