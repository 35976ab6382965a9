import { dirname } from 'node:path'

/** What runs in one process. */
export interface Job {
  /** its file, or the folder of its files */
  readonly name: string
  readonly files: readonly string[]
}

/** Rooms whose files do less than it takes to start a process, to load what they test, and an API server, if they share one. */
const shared = [
  'test/unit',
  'test/cluster',
  'test/contract/agentk',
  'test/contract/agents-server',
  'test/contract/gitlab-agents',
  'test/contract/directory',
  'test/contract/discovery',
  'test/contract/grpc',
  'test/contract/kubernetes-server',
  'test/contract/ops',
  'test/contract/rails-server',
  'test/contract/replicas-server',
  'test/contract/tracing',
  'test/contract/wire',
  'test/ground',
]
/** of those rooms, what starts programs for long, or has other programs on its PATH */
export const alone = [
  ...['alerts', 'apt', 'bench-views', 'images', 'package', 'run-job', 'tree'].map((name) => `ground/${name}`),
  ...['front-address', 'front-cuts', 'front-kubectl', 'frozen-holder', 'membership'].map((name) => `cluster/${name}`),
  ...['discovery', 'links', 'one-port'].map((name) => `cluster/namespaces-${name}`),
].map((name) => `test/${name}.test.ts`)

/** Most files are processes of their own; those of a room of `shared` are together. */
export function jobsOf(files: readonly string[]): Job[] {
  const rooms = Map.groupBy(files, (file) => (isShared(file) ? roomOf(file) : file))
  return [...rooms].map(([room, files]) => ({ name: files.length === 1 ? (files[0] as string) : room, files }))
}

const isShared = (file: string) => shared.some((room) => file.startsWith(`${room}/`)) && !alone.includes(file)

/** `test/unit/kas`, of all that is below it: what its files test is loaded once; else `test/contract/agentk/gitops`. */
const roomOf = (file: string) => {
  const depth = file.startsWith('test/unit/') ? 3 : 4
  return dirname(file).split('/').slice(0, depth).join('/')
}
