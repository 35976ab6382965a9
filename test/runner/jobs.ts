import { dirname } from 'node:path'

/** Test files that run in one process. */
export interface Job {
  /** name of its only file, or of the folder of its files */
  readonly name: string
  readonly files: readonly string[]
}

/** Folders whose files share a process, because start-up, loading and an API server cost more than the tests. */
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
/** files of these folders that start programs for long, or that have other programs on the PATH */
export const alone = [
  ...['alerts', 'apt', 'bench-views', 'images', 'package', 'run-job', 'tree'].map((name) => `ground/${name}`),
  ...['front-address', 'front-cuts', 'front-kubectl', 'frozen-holder', 'membership'].map((name) => `cluster/${name}`),
  ...['discovery', 'links', 'one-port'].map((name) => `cluster/namespaces-${name}`),
  'contract/agentk/gitops/drift-idle',
].map((name) => `test/${name}.test.ts`)

/** Returns one job for each file; files of a folder in `shared` are one job together. */
export function jobsOf(files: readonly string[]): Job[] {
  const rooms = Map.groupBy(files, (file) => (isShared(file) ? roomOf(file) : file))
  return [...rooms].map(([room, files]) => ({ name: files.length === 1 ? (files[0] as string) : room, files }))
}

const isShared = (file: string) => shared.some((room) => file.startsWith(`${room}/`)) && !alone.includes(file)

/** Returns the folder of a job: `test/unit/kas` with everything below it, elsewhere `test/contract/agentk/gitops`. */
const roomOf = (file: string) => {
  const depth = file.startsWith('test/unit/') ? 3 : 4
  return dirname(file).split('/').slice(0, depth).join('/')
}
