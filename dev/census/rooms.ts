import { globSync } from 'node:fs'
import { importsIn } from './imports.ts'

/**
 * The rooms of a folder, and their dependencies.
 *
 * - A room is a folder or a file that is directly in the folder. A file below is part of its room.
 * - An arrow leads from a room to another room of the folder that it imports from. Imports of types count, and several
 *   imports are one arrow.
 * - Arrows up are the fewest arrows without which the rooms have no circle.
 * - A room is one floor above the highest room that its arrows lead to. Arrows up do not count.
 */
export interface Rooms {
  readonly rooms: readonly string[]
  readonly arrows: readonly Arrow[]
  /** the lowest first */
  readonly floors: readonly (readonly string[])[]
  readonly up: readonly Arrow[]
}

/** `['apply', 'live']`: apply imports from live */
export type Arrow = readonly [from: string, to: string]

/** Limit of rooms in one circle. All their orders are compared, by sets of rooms: 2 to the power of so many. */
const maxInCircle = 20

/** @throws Error where the folder has no TypeScript, or a circle has more rooms than can be ordered */
export function roomsOf(folder: string): Rooms {
  const rooms = [...new Set(globSync('**/*.ts', { cwd: folder }).map(roomOf))].sort()
  if (rooms.length === 0) throw new Error(`${folder} has no TypeScript: name a folder such as src/agentk`)
  const ends = new Map(rooms.map((room) => [room, new Set<string>()]))
  for (const { file, to, isFile } of importsIn(folder)) {
    const isInside = isFile && !to.startsWith('..')
    if (isInside && roomOf(to) !== roomOf(file)) ends.get(roomOf(file))?.add(roomOf(to))
  }
  const arrows = [...ends].flatMap(([from, tos]) => [...tos].sort().map((to): Arrow => [from, to]))
  const up = circlesOf(rooms, arrows).flatMap((circle) => arrowsUp(circle, arrows))
  const down = arrows.filter((arrow) => !up.includes(arrow))
  return { rooms, arrows, floors: floorsOf(rooms, down), up }
}

function roomOf(file: string): string {
  return file.split('/')[0] ?? file
}

/** @returns groups of two or more rooms, each of which leads to all others, also through others */
function circlesOf(rooms: readonly string[], arrows: readonly Arrow[]): string[][] {
  const reached = new Map(rooms.map((room) => [room, reachedFrom(room, arrows)]))
  const isOfOne = (one: string, other: string) =>
    reached.get(one)?.has(other) === true && reached.get(other)?.has(one) === true
  const circles = rooms.map((room) => rooms.filter((other) => isOfOne(room, other)))
  return circles.filter(([first], i) => first === rooms[i]) // each at its first room
}

function reachedFrom(room: string, arrows: readonly Arrow[]): ReadonlySet<string> {
  const reached = new Set<string>()
  const open = [room]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const [from, to] of arrows) {
      if (from !== next || reached.has(to)) continue
      reached.add(to)
      open.push(to)
    }
  }
  return reached
}

/** Finds the order of rooms with the fewest arrows up: for each set of rooms, the best room on top. */
function arrowsUp(circle: readonly string[], arrows: readonly Arrow[]): Arrow[] {
  if (circle.length > maxInCircle) {
    const most = `at most ${maxInCircle} can be ordered`
    throw new Error(`${circle.length} rooms are one circle, ${most}: name a folder below, or cut ${circle.join(', ')}`)
  }
  const bit = (room: string) => 1 << circle.indexOf(room)
  const own = arrows.filter(([from, to]) => circle.includes(from) && circle.includes(to))
  const ends = circle.map((room) => own.reduce((set, [from, to]) => (from === room ? set | bit(to) : set), 0))
  const all = (1 << circle.length) - 1
  const fewest = new Int32Array(all + 1).fill(own.length)
  const top = new Int8Array(all + 1)
  fewest[0] = 0
  for (let below = 0; below < all; below++) {
    for (const [i, to] of ends.entries()) {
      const set = below | (1 << i)
      const count = (fewest[below] ?? 0) + bitsOf(to & ~set)
      if (set === below || count > (fewest[set] ?? 0)) continue
      fewest[set] = count
      top[set] = i
    }
  }
  const order: string[] = []
  for (let set = all; set > 0; set &= ~(1 << (top[set] ?? 0))) order.unshift(circle[top[set] ?? 0] ?? '')
  return own.filter(([from, to]) => order.indexOf(from) < order.indexOf(to))
}

function bitsOf(set: number): number {
  let count = 0
  for (let left = set; left !== 0; left &= left - 1) count++
  return count
}

/** @param arrows - without a circle */
function floorsOf(rooms: readonly string[], arrows: readonly Arrow[]): string[][] {
  const floors: string[][] = []
  const placed = new Set<string>()
  while (placed.size < rooms.length) {
    const floor = rooms.filter(
      (room) => !placed.has(room) && arrows.every(([from, to]) => from !== room || placed.has(to)),
    )
    for (const room of floor) placed.add(room)
    floors.push(floor)
  }
  return floors
}
