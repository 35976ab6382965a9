import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const root = join(import.meta.dirname, '..', '..')
const biome = join(root, 'node_modules', '.bin', 'biome')

/** Path to content of a tree that the rules accept, with one file in each folder that has rules of its own. */
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

/** What biome, with the project's own configuration, says of the clean tree with these files laid over it. */
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

const direction = /lint\/style\/noRestrictedImports/

/** A forbidden import: which file, of what. */
const wrong: [file: string, specifier: string][] = [
  ['src/lib/bad.ts', '../proto/call.ts'],
  ['src/lib/bad.ts', '../kas/router/router.ts'],
  ['src/lib/deep/bad.ts', '../../agentk/tunnels/pool.ts'],
  ['src/lib/bad.ts', 'ws'],
  ['src/lib/bad.ts', 'tap'],
  ['src/lib/tracing/bad.ts', '@opentelemetry/sdk-trace'],
  ['src/kas/bad.ts', '@opentelemetry/resources'],
  ['src/agentk/bad.ts', '@opentelemetry/exporter-trace-otlp-proto'],
  ['src/proto/bad.ts', '../ring/ring.ts'],
  ['src/proto/bad.ts', '../membership/membership.ts'],
  ['src/proto/grpc/bad.ts', '../../kas/router/router.ts'],
  ['src/proto/bad.ts', '@grpc/grpc-js'],
  ['src/proto/bad.ts', 'pino'],
  ['src/ring/bad.ts', '../lib/errors.ts'],
  ['src/ring/bad.ts', 'zod'],
  ['src/membership/bad.ts', '../kas/router/router.ts'],
  ['src/membership/bad.ts', '../agentk/tunnels/pool.ts'],
  ['src/membership/bad.ts', 'undici'],
  ['src/kas/servers/bad.ts', '../../agentk/tunnels/pool.ts'],
  ['src/kas/servers/bad.ts', '../../membership/table.ts'],
  ['src/kas/servers/bad.ts', 'libp2p'],
  ['src/kas/servers/bad.ts', '@kubernetes/client-node'],
  ['src/agentk/bad.ts', '../kas/router/router.ts'],
  ['src/agentk/bad.ts', '../ring/ring.ts'],
  ['src/agentk/bad.ts', '../membership/membership.ts'],
  ['src/agentk/bad.ts', '@grpc/grpc-js'],
  ['src/kas/modules/bad.ts', './notifications.ts'],
  ['src/kas/modules/bad.ts', './tracker/tracker.ts'],
  ['src/kas/modules/bad.ts', '../../agentk/tunnels/pool.ts'],
  ['src/kas/modules/bad.ts', 'libp2p'],
  ['src/kas/modules/bad/bad.ts', '../notifications.ts'],
  ['src/kas/modules/bad/bad.ts', '../tracker/tracker.ts'],
  ['src/kas/modules/bad/deep/bad.ts', '../../tracker/tracker.ts'],
  ['src/agentk/modules/bad.ts', './leader.ts'],
  ['src/agentk/modules/bad/bad.ts', '../leader.ts'],
  ['src/kas/bad.ts', '../../dev/start.ts'],
  ['src/agentk/bad.ts', '../../test/support/fake.ts'],
  ['src/lib/bad.ts', '../../bench/hop.ts'],
  ['dev/bad.ts', '../test/support/fake.ts'],
]

t.test('the clean tree is accepted', async (t) => {
  const { status, output } = check(t)
  t.equal(status, 0, output)
})

t.test('a wrong import is refused, at the file that has it', async (t) => {
  const planted = wrong.flatMap(([file, specifier]) =>
    [`import '${specifier}'`, `export * from '${specifier}'`].map((line) => ({ file, specifier, line })),
  )
  const numbered = planted.map((one, i) => ({ ...one, path: one.file.replace(/bad\.ts$/, `bad-${i}.ts`) }))
  const { status, output } = check(t, Object.fromEntries(numbered.map(({ path, line }) => [path, `${line}\n`])))
  t.equal(status, 1)
  const refused = new Set(
    [...output.matchAll(/^(\S+):1:\d+ lint\/style\/noRestrictedImports/gm)].map(([, path]) => path),
  )
  for (const [file, specifier] of wrong) {
    await t.test(`${file} may not import ${specifier}`, async (t) => {
      const cases = numbered.filter((one) => one.file === file && one.specifier === specifier)
      for (const { path, line } of cases) t.ok(refused.has(path), line)
    })
  }
  t.equal(refused.size, planted.length, 'no other file is refused')
})

t.test('a type import, a dynamic import and a subpath count too', async (t) => {
  for (const line of [
    "export type { X } from '../proto/call.ts'",
    "export const x = import('../proto/call.ts')",
    "import 'ws/lib/websocket.js'",
  ]) {
    t.match(check(t, { 'src/lib/bad.ts': `${line}\n` }).output, direction, line)
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
