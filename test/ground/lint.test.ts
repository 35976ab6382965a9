import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const root = join(import.meta.dirname, '..', '..')
const biome = join(root, 'node_modules', '.bin', 'biome')

/** files of a tree that the rules accept, with one file in each folder that has its own rules */
const clean: Record<string, string> = {
  'src/lib/errors.ts': "import { z } from 'zod'\n\nexport const schema = z.string()\n",
  'src/lib/tracing/otlp-tracing.ts': "export { TracerProvider } from '@opentelemetry/sdk-trace'\n",
  'src/proto/call.ts':
    "import { create } from '@bufbuild/protobuf'\nimport { schema } from '../lib/errors.ts'\n\nexport const parts = [create, schema]\n",
  'src/ring/ring.ts': "import HashRing from 'hashring'\n\nexport const ring = new HashRing([])\n",
  'src/membership/membership.ts':
    "import { createLibp2p } from 'libp2p'\nimport { ring } from '../ring/ring.ts'\n\nexport const parts = [createLibp2p, ring]\n",
  'src/membership/table.ts': 'export const table = 1\n',
  'src/kas/router/router.ts': "export { parts } from '../../membership/membership.ts'\n",
  'src/kas/modules/notifications.ts': "export { parts } from '../router/router.ts'\n",
  'src/kas/modules/tracker/tracker.ts': "export { row } from './row.ts'\n",
  'src/kas/modules/tracker/row.ts': 'export const row = 1\n',
  'src/kas/modules/tracker/rows/rows.ts': "export { row } from '../row.ts'\n",
  'src/agentk/tunnels/pool.ts': "export { fetch } from 'undici'\nexport { parts } from '../../proto/call.ts'\n",
  'src/agentk/modules/registrar.ts': "export { parts } from '../tunnels/pool.ts'\n",
  'src/agentk/modules/leader.ts': 'export const leader = 1\n',
  'dev/start.ts': "export { parts } from '../src/kas/router/router.ts'\n",
  'test/support/fake.ts': 'export const fake = 1\n',
  'bench/hop.ts': 'export const hop = 1\n',
}

/** Runs biome with the project's configuration on the clean tree plus these files. */
function check(t: Test, files: Record<string, string> = {}): { status: number | null; output: string } {
  const dir = t.testdir()
  for (const name of ['biome.json', 'tsconfig.json']) cpSync(join(root, name), join(dir, name))
  for (const [path, content] of Object.entries({ ...clean, ...files })) {
    mkdirSync(join(dir, path, '..'), { recursive: true })
    writeFileSync(join(dir, path), content)
  }
  const args = ['check', '--error-on-warnings', '--colors=off', '--max-diagnostics=none']
  const { status, stdout, stderr } = spawnSync(biome, args, { cwd: dir, encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

t.test('the clean tree is accepted', async (t) => {
  const { status, output } = check(t)
  t.equal(status, 0, output)
})

t.test('dev imports neither test nor bench', async (t) => {
  for (const line of ["import '../test/support/fake.ts'", "export * from '../bench/hop.ts'"]) {
    const { status, output } = check(t, { 'dev/bad.ts': `${line}\n` })
    t.equal(status, 1, line)
    t.match(output, /^dev\/bad\.ts:1:\d+ lint\/style\/noRestrictedImports/m, line)
  }
})

t.test('an import cycle is refused', async (t) => {
  const { status, output } = check(t, {
    'src/lib/one.ts': "import { two } from './two.ts'\n\nexport const one = () => two()\n",
    'src/lib/two.ts': "import { one } from './one.ts'\n\nexport const two = (): unknown => one()\n",
  })
  t.equal(status, 1)
  t.match(output, /lint\/suspicious\/noImportCycles/)
})

t.test('a floating promise is refused', async (t) => {
  const declared = 'async function work(): Promise<void> {}\n\n'
  const kinds = ['work()', 'Promise.resolve(1)', 'work().finally(() => {})', 'maybe(1)']
  const maybe = 'const maybe = (n: number): Promise<void> | undefined => (n > 0 ? work() : undefined)\n\n'
  for (const kind of kinds) {
    const { status, output } = check(t, { 'src/lib/bad.ts': `${declared}${maybe}maybe(2)?.catch(() => {})\n${kind}\n` })
    t.equal(status, 1, kind)
    t.match(output, /lint\/nursery\/noFloatingPromises/, kind)
  }
  const held = `${declared}await work()\nvoid work()\nwork().catch(() => {})\n`
  t.equal(check(t, { 'src/lib/good.ts': held }).status, 0)
})

t.test('a floating promise of an imported function is refused', async (t) => {
  const { output } = check(t, {
    'src/lib/work.ts': 'export async function work(): Promise<void> {}\n',
    'src/lib/bad.ts': "import { work } from './work.ts'\n\nwork()\n",
  })
  t.match(output, /lint\/nursery\/noFloatingPromises/)
})

t.test('bad format and a recommended rule are refused', async (t) => {
  for (const [content, rule] of [
    ['export const a = "x";\n', /format/],
    ["export const a = { b: 'x'}\n", /format/],
    ['export let a: any = 1\n', /noExplicitAny/],
    ['export const a = 1 == 2\n', /noDoubleEquals/],
  ] as const) {
    const { status, output } = check(t, { 'src/lib/bad.ts': content })
    t.equal(status, 1, content)
    t.match(output, rule, content)
  }
})

t.test('a badly formatted biome.json is refused', async (t) => {
  const squeezed = JSON.stringify(JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8')))
  const { status, output } = check(t, { 'biome.json': squeezed })
  t.equal(status, 1)
  t.match(output, /^biome\.json format/m)
})

t.test('generated code is left alone', async (t) => {
  t.equal(check(t, { 'src/proto/gen/x_pb.ts': 'export let a = "x";\n' }).status, 0)
})
