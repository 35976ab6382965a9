import { dirname } from 'node:path'

/** What runs in one process. */
export interface Job {
  /** its file, or the folder of its files */
  readonly name: string
  readonly files: readonly string[]
}

/** Most files are processes of their own. Those of unit tests do less than it takes to start one: a room's are together. */
export function jobsOf(files: readonly string[]): Job[] {
  const rooms = Map.groupBy(files, (file) => (file.startsWith('test/unit/') ? roomOf(file) : file))
  return [...rooms].map(([room, files]) => ({ name: files.length === 1 ? (files[0] as string) : room, files }))
}

/** `test/unit/kas/servers` of all that is below it. */
const roomOf = (file: string) => dirname(file).split('/').slice(0, 4).join('/')
