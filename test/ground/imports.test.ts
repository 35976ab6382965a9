import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { circles, type Import, importsIn } from '../../dev/census/imports.ts'

/**
 * Imports that each room of `src` is allowed: other rooms, then packages. A room is a file, or a folder without the
 * rooms inside it.
 */
const rooms: Readonly<Record<string, string>> = {
  lib: '| @opentelemetry/api fastest-levenshtein pino prom-client yaml zod',
  'lib/tracing/otlp-tracing.ts': 'lib | @opentelemetry/*',
  'lib/doctor': 'lib',
  kubernetes: '',
  ring: '| hashring',
  call: 'lib',
  'kubernetes/request': 'lib call',
  'proto/gen': '| @bufbuild/protobuf',
  'proto/wire': 'lib',
  'proto/grpc': 'lib call | @bufbuild/protobuf',
  'proto/http': 'lib proto/wire',
  'proto/decode.ts': 'lib | @bufbuild/protobuf',
  'proto/gitops': 'proto/gen | zod',
  'proto/views': '| zod',
  proto: 'lib call proto/decode.ts proto/gen proto/wire proto/grpc | @bufbuild/protobuf',
  'membership/table': 'lib call proto/decode.ts proto/gen proto/wire | @bufbuild/protobuf',
  'membership/discovery': 'lib kubernetes | @kubernetes/client-node',
  'membership/protocol': 'lib membership/table membership/discovery',
  'membership/network':
    'lib proto/decode.ts proto/gen proto/wire membership/table membership/protocol | libp2p @libp2p/* @multiformats/multiaddr @bufbuild/protobuf',
  membership:
    'lib call ring membership/table membership/protocol membership/network membership/discovery | prom-client',
  'kas/agent.ts': 'call',
  'kas/config': 'lib | zod',
  'kas/observability': 'lib lib/tracing/otlp-tracing.ts kas/config | prom-client',
  'kas/access-log': 'lib kubernetes/request kas/config | zod prom-client',
  'kas/sessions': 'lib call proto proto/gen kas/access-log kas/peers | @bufbuild/protobuf',
  'kas/memory': 'lib call proto/grpc | prom-client',
  'kas/tunnels': 'lib call ring proto proto/wire proto/grpc membership kas/agent.ts kas/memory',
  'kas/peers':
    'lib call proto proto/gen proto/grpc membership kas/memory kas/tunnels | prom-client @peculiar/x509 @bufbuild/protobuf',
  'kas/router': 'lib call kas/tunnels kas/peers | prom-client',
  'kas/repositories':
    'lib call proto proto/decode.ts proto/gen proto/grpc proto/wire kas/agent.ts kas/observability | simple-git prom-client @bufbuild/protobuf',
  'kas/agent-config':
    'lib proto proto/gen proto/http kas/agent.ts kas/repositories | zod prom-client @bufbuild/protobuf',
  'kas/directory':
    'lib call proto/http kas/agent.ts kas/config kas/observability kas/repositories kas/agent-config | zod jose undici prom-client',
  'kas/agent-caller.ts': 'call proto/gen proto/http | @bufbuild/protobuf',
  'kas/agent-method.ts': 'lib call kas/agent.ts',
  'kas/own-endpoint.ts': 'lib call proto/http',
  'kas/module.ts':
    'lib call proto membership kas/access-log kas/agent-method.ts kas/own-endpoint.ts kas/peers kas/repositories kas/agent-config kas/directory',
  'kas/servers/addresses': 'lib',
  'kas/servers': 'lib kas/config kas/observability kas/servers/addresses',
  'kas/servers/agents':
    'lib call proto proto/gen proto/grpc kas/access-log kas/agent.ts kas/agent-method.ts kas/directory kas/memory kas/peers kas/servers kas/servers/addresses kas/tunnels | ws prom-client @bufbuild/protobuf',
  'kas/servers/rails':
    'lib call proto proto/grpc proto/http kas/config kas/observability kas/peers kas/servers | @grpc/grpc-js jose prom-client',
  'kas/servers/replicas': 'lib call proto/grpc kas/config kas/memory kas/peers kas/servers kas/tunnels | prom-client',
  'kas/servers/ops-socket':
    'lib call proto/decode.ts proto/gen proto/http membership kas/access-log kas/module.ts kas/peers kas/servers kas/sessions kas/tunnels | @bufbuild/protobuf',
  'kas/servers/kubernetes/request': 'lib kubernetes/request proto/http',
  'kas/servers/kubernetes/response': 'lib proto/http proto/wire | negotiator',
  'kas/servers/kubernetes/http':
    'lib call proto/http kas/servers kas/servers/addresses kas/servers/kubernetes/request kas/servers/kubernetes/response | prom-client',
  'kas/servers/kubernetes/authorization':
    'lib kubernetes/request call proto/http kas/access-log kas/directory kas/sessions kas/servers/kubernetes/request',
  'kas/servers/kubernetes/websocket': 'lib call proto/http kas/servers/kubernetes/http | ws',
  'kas/servers/kubernetes/watch':
    'lib kubernetes kubernetes/request call proto/http proto/wire kas/access-log kas/config kas/directory kas/servers/kubernetes/request kas/servers/kubernetes/response kas/servers/kubernetes/http kas/servers/kubernetes/authorization kas/servers/kubernetes/websocket | ws jose',
  'kas/servers/kubernetes':
    'lib kubernetes/request call proto/http proto/wire membership kas/access-log kas/own-endpoint.ts kas/config kas/directory kas/memory kas/peers kas/sessions kas/tunnels kas/servers kas/servers/addresses kas/servers/kubernetes/request kas/servers/kubernetes/response kas/servers/kubernetes/http kas/servers/kubernetes/authorization kas/servers/kubernetes/websocket kas/servers/kubernetes/watch',
  'kas/modules/gitops/preview': 'lib proto/gen | @bufbuild/protobuf tar-stream',
  'kas/modules/*/cli':
    'lib kubernetes proto proto/gen proto/gitops kas/command kas/modules/gitops/preview | @bufbuild/protobuf tar-stream ws yaml zod',
  'kas/modules/*':
    'lib call proto proto/decode.ts proto/gen proto/gitops proto/views proto/wire proto/grpc proto/http membership kas/agent.ts kas/agent-caller.ts kas/agent-method.ts kas/own-endpoint.ts kas/module.ts kas/agent-config kas/directory kas/peers kas/repositories kas/modules/gitops/preview | @bufbuild/protobuf prom-client',
  'kas/module-schemas.ts': 'lib kas/agent-config kas/modules/*',
  'kas/command': 'lib | yaml zod',
  'kas/cli':
    'lib lib/doctor kubernetes proto/gitops membership/discovery kas/access-log kas/command kas/modules/*/cli kas/module-schemas.ts kas/agent.ts kas/agent-config kas/config kas/directory kas/observability kas/peers kas/repositories kas/servers kas/servers/ops-socket kas/sessions | @kubernetes/client-node ws yaml zod',
  kas: 'lib lib/tracing/otlp-tracing.ts call ring proto proto/* membership kas/* | @bufbuild/protobuf',
  'agentk/cluster': 'lib kubernetes call proto/http | undici',
  'agentk/tunnels': 'lib call proto proto/gen proto/wire proto/grpc | ws prom-client @bufbuild/protobuf',
  'agentk/caller.ts': 'lib proto/gen proto/http',
  'agentk/config': 'lib lib/tracing/otlp-tracing.ts agentk/cluster agentk/tunnels',
  'agentk/election': 'lib kubernetes agentk/cluster',
  'agentk/configuration': 'lib call proto proto/decode.ts proto/gen proto/grpc agentk/tunnels | @bufbuild/protobuf',
  'agentk/health': 'kubernetes | @bufbuild/cel yaml zod',
  'agentk/module.ts': 'lib proto/gen agentk/cluster agentk/tunnels agentk/election agentk/configuration',
  'agentk/modules/views/projection': 'kubernetes proto agentk/health',
  'agentk/modules/views/store': 'lib kubernetes proto agentk/health agentk/modules/views/projection',
  'agentk/modules/views/access':
    'lib kubernetes proto proto/http agentk/caller.ts agentk/cluster agentk/modules/views/projection agentk/modules/views/store',
  'agentk/modules/views/watch':
    'lib kubernetes proto agentk/cluster agentk/health agentk/modules/views/projection agentk/modules/views/store agentk/modules/views/access',
  'agentk/modules/views/tree':
    'lib kubernetes proto agentk/health agentk/modules/views/projection agentk/modules/views/store',
  'agentk/modules/views/view':
    'lib kubernetes proto agentk/caller.ts agentk/health agentk/modules/views/projection agentk/modules/views/store agentk/modules/views/access agentk/modules/views/tree',
  'agentk/modules/views/thread':
    'lib call proto proto/decode.ts proto/gen proto/grpc agentk/caller.ts agentk/cluster agentk/health agentk/tunnels agentk/modules/views/projection agentk/modules/views/store agentk/modules/views/access agentk/modules/views/watch agentk/modules/views/tree agentk/modules/views/view | @bufbuild/protobuf',
  'agentk/modules/views':
    'lib call proto proto/gen agentk/election agentk/tunnels agentk/module.ts agentk/modules/views/thread | @bufbuild/protobuf prom-client',
  'agentk/modules/gitops':
    'lib kubernetes proto proto/decode.ts proto/gen proto/gitops proto/grpc agentk/caller.ts agentk/cluster agentk/health agentk/tunnels agentk/election agentk/module.ts | @bufbuild/protobuf prom-client js-yaml zod',
  'agentk/modules/*':
    'lib kubernetes call proto proto/decode.ts proto/gen proto/http proto/wire agentk/cluster agentk/tunnels agentk/election agentk/module.ts | @bufbuild/protobuf prom-client',
  agentk: 'lib lib/doctor lib/tracing/otlp-tracing.ts kubernetes call proto proto/* agentk/* | @bufbuild/protobuf',
}

const source = join(import.meta.dirname, '../../src')

const matches = (pattern: string, name: string) => {
  const [start = '', end] = pattern.split('*')
  return end === undefined ? name === pattern : name.startsWith(start) && name.endsWith(end)
}

/**
 * Returns the innermost room of a file. Each module is a room; its commands and the rooms of the table inside it are
 * rooms too.
 */
function roomOf(file: string): string {
  const [module] = /^(?:kas|agentk)\/modules\/[^/]+(?:\/cli(?=\/))?/.exec(file) ?? []
  const own = Object.keys(rooms).filter((room) => file === room || file.startsWith(`${room}/`))
  const innermost = own.sort((one, other) => other.length - one.length)[0]
  return module && !innermost?.startsWith(`${module}/`) ? module : (innermost ?? `no room: ${file}`)
}

/** @returns one line for each forbidden import */
function violations(imports: readonly Import[]): string[] {
  return imports.flatMap(({ file, to, isFile }) => {
    const [from, other] = [roomOf(file), isFile ? roomOf(to) : '']
    if (from === other) return []
    const key =
      Object.keys(rooms).find((room) => room === from) ?? Object.keys(rooms).find((room) => matches(room, from))
    const [below = '', packages = ''] = (rooms[key ?? ''] ?? '').split('|')
    const name = isFile
      ? other
      : to
          .split('/')
          .slice(0, to.startsWith('@') ? 2 : 1)
          .join('/')
    const allowed = (isFile ? below : packages).split(' ').some((pattern) => matches(pattern, name))
    return allowed ? [] : [`${file} (${from}) imports ${to}`]
  })
}

/** Returns rooms by level: each room imports only from lower levels. @throws Error that names a cycle */
function floors(imports: readonly Import[]): string[][] {
  const below = new Map<string, Set<string>>()
  for (const { file, to, isFile } of imports) {
    const [from, other] = [roomOf(file), isFile ? roomOf(to) : undefined]
    const own = below.get(from) ?? new Set()
    below.set(from, own)
    if (other === undefined || other === from) continue
    own.add(other)
    if (!below.has(other)) below.set(other, new Set())
  }
  const found: string[][] = []
  while (below.size > 0) {
    const floor = [...below].filter(([, own]) => [...own].every((room) => !below.has(room))).map(([room]) => room)
    if (floor.length === 0) throw new Error(`a circle among ${[...below.keys()].join(', ')}`)
    for (const room of floor) below.delete(room)
    found.push(floor.sort())
  }
  return found
}

t.test('each room imports what is below it', async (t) => {
  const imports = importsIn(source)
  t.ok(imports.length > 1000, 'they are found')
  t.strictSame(violations(imports), [])
  const found = floors(imports)
  for (const [i, floor] of found.entries()) t.comment(`floor ${i}: ${floor.join(', ')}`)
  const files = globSync('**/*.ts', { cwd: source, exclude: ['proto/gen/**'] })
  const short = files.filter((file) => readFileSync(join(source, file), 'utf8').split('\n').length <= 25)
  t.comment(
    `${files.length} files, ${short.length} of them under 25 lines; ${found.flat().length} rooms, ${found.length} floors`,
  )
  t.strictSame(circles(imports), [])
})

t.test('what points up, aside or into a circle is found', async (t) => {
  type Tree = Parameters<typeof t.testdir>[0]
  const of = (files: Tree) => importsIn(t.testdir(files))
  const one = (folder: string, name: string) => ({
    [folder]: { 'x.ts': `import { y } from '${name}'\n\nexport const x = y\n` },
  })
  t.strictSame(violations(of(one('lib', '../call/call.ts'))), ['lib/x.ts (lib) imports call/call.ts'])
  t.strictSame(violations(of(one('ring', 'zod'))), ['ring/x.ts (ring) imports zod'])
  t.strictSame(violations(of(one('agentk', '../kas/agent.ts'))), ['agentk/x.ts (agentk) imports kas/agent.ts'])
  t.strictSame(violations(of(one('kas', '../../test/support/x.ts'))), ['kas/x.ts (kas) imports ../test/support/x.ts'])
  const modules = { kas: { modules: { flux: { 'x.ts': "export * from '../notifications/y.ts'\n" } } } }
  t.match(violations(importsIn(t.testdir(modules))), [/modules\/flux\) imports kas\/modules\/notifications/])
  t.strictSame(violations(of(one('lib', 'ws/lib/websocket.js'))), ['lib/x.ts (lib) imports ws/lib/websocket.js'])
  t.equal(violations(importsIn(t.testdir({ lib: { 'x.ts': "export type { X } from '../call/call.ts'\n" } }))).length, 1)
  const lazy = { kas: { router: { 'x.ts': "export const x = () => import('../directory/y.ts')\n" } } }
  t.equal(violations(importsIn(t.testdir(lazy))).length, 1)
  const two = {
    lib: { 'a.ts': "import '../ring/b.ts'\n", 'c.ts': "import './d.ts'\n", 'd.ts': "import './c.ts'\n" },
    ring: { 'b.ts': "import '../lib/a.ts'\n" },
  }
  const imports = importsIn(t.testdir(two))
  t.throws(() => floors(imports), /a circle among/)
  t.strictSame(circles(imports), ['lib/a.ts ring/b.ts', 'lib/c.ts lib/d.ts'])
})
