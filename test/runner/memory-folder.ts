import { readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'

/**
 * A folder in memory where programs may lie, else the usual one. npm unpacks a package three times and deletes two of
 * them: ext4 then looks long for inodes that were not deleted just now, which is most of what an installation takes.
 *
 * @param gibibytes - that it must have free
 */
export function memoryFolder(gibibytes: number): string {
  try {
    const [, options = 'noexec'] = new RegExp(`^\\S+ ${memory} tmpfs (\\S+)`, 'm').exec(read('/proc/mounts')) ?? []
    const { bavail, bsize } = statfsSync(memory)
    const free = Math.min(bavail * bsize, process.availableMemory()) // it may be larger than the memory
    return options.split(',').includes('noexec') || free < gibibytes * 1024 ** 3 ? tmpdir() : memory
  } catch {
    return tmpdir() // no Linux
  }
}

const read = (path: string) => readFileSync(path, 'utf8')
