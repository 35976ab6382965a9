import { readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'

/**
 * Returns a folder in memory if programs can run there, otherwise the usual temporary folder. npm unpacks a package
 * three times and deletes two copies. On ext4 the search for free inodes then takes most of an installation's time.
 *
 * @param gibibytes - free space that is needed
 */
export function memoryFolder(gibibytes: number): string {
  try {
    const [, options = 'noexec'] = new RegExp(`^\\S+ ${memory} tmpfs (\\S+)`, 'm').exec(read('/proc/mounts')) ?? []
    const { bavail, bsize } = statfsSync(memory)
    const free = Math.min(bavail * bsize, process.availableMemory()) // the folder may be larger than the free memory
    return options.split(',').includes('noexec') || free < gibibytes * 1024 ** 3 ? tmpdir() : memory
  } catch {
    return tmpdir() // not Linux
  }
}

const read = (path: string) => readFileSync(path, 'utf8')
