import { readdir, readFile, readlink } from 'node:fs/promises'

/** TCP ports on which the processes listen, lowest first; from /proc, for this user's processes. */
export async function listeningPorts(pids: readonly number[]): Promise<number[]> {
  const own = new Set((await Promise.all(pids.map(socketsOf))).flat())
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8')))
  const rows = tables.flatMap((table) => table.split('\n').slice(1)).map((row) => row.trim().split(/\s+/))
  const listening = rows.filter(([, , , state, , , , , , inode]) => state === listen && own.has(inode ?? ''))
  const ports = listening.map(([, address = '']) => Number.parseInt(address.split(':')[1] ?? '', 16))
  return [...new Set(ports)].sort((a, b) => a - b)
}

/** Ids of the processes that have the line in their environment. */
export async function processesWith(line: string): Promise<number[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const environments = await Promise.all(ids.map((id) => readFile(`/proc/${id}/environ`, 'utf8').catch(() => '')))
  return ids.filter((_, i) => environments[i]?.split('\0').includes(line))
}

/** state TCP_LISTEN */
const listen = '0A'

async function socketsOf(pid: number): Promise<string[]> {
  const folder = `/proc/${pid}/fd`
  const links = await Promise.all((await readdir(folder)).map((fd) => readlink(`${folder}/${fd}`).catch(() => '')))
  return links.flatMap((link) => link.match(/^socket:\[(\d+)\]$/)?.[1] ?? [])
}
