import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
/** Version 1 has a hierarchy of its own for memory, version 2 has one for everything. */
const isFirst = existsSync(join(root, 'memory'))
const parent = isFirst ? join(root, 'memory') : root
const limitFile = isFirst ? 'memory.limit_in_bytes' : 'memory.max'
const eventsFile = isFirst ? 'memory.oom_control' : 'memory.events'

/** @returns the reason why there can be no memory cgroups, or false */
export function missingMemoryGroups(): string | false {
  if (process.getuid?.() !== 0) return 'needs root'
  try {
    accessSync(parent, constants.W_OK)
    const probe = join(parent, `kas-probe-${process.pid}`)
    mkdirSync(probe)
    const hasLimit = existsSync(join(probe, limitFile))
    rmdirSync(probe)
    return !hasLimit && 'needs cgroups with memory'
  } catch (error) {
    return `needs cgroups with memory: ${(error as Error).message}`
  }
}

/** Memory cgroups for programs: each program starts in a cgroup of its own, with the same limit. */
export class MemoryGroups {
  readonly #prefix = `kas-memory-${process.pid}-`
  readonly #limitBytes: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
    if (!isFirst) writeFileSync(join(root, 'cgroup.subtree_control'), '+memory')
  }

  /** @returns a command that enters a new cgroup and runs the given one in it */
  command(command: readonly string[]): readonly string[] {
    const group = `${parent}/${this.#prefix}$$`
    const enter = `mkdir ${group} && echo ${this.#limitBytes} > ${group}/${limitFile} && echo $$ > ${group}/cgroup.procs && exec "$@"`
    return ['/bin/sh', '-ec', enter, 'sh', ...command]
  }

  /** Number of processes that the kernel has killed for their memory. */
  kills(): number {
    return this.#groups()
      .map((group) => /^oom_kill (\d+)$/m.exec(readFileSync(join(group, eventsFile), 'utf8'))?.[1] ?? '0')
      .reduce((sum, count) => sum + Number(count), 0)
  }

  /** Removes the cgroups, once the programs have ended. */
  remove(): void {
    for (const group of this.#groups()) rmdirSync(group)
  }

  #groups(): string[] {
    return readdirSync(parent)
      .filter((name) => name.startsWith(this.#prefix))
      .map((name) => join(parent, name))
  }
}
