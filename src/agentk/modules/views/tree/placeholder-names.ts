import type { Owner } from '../projection/projector.ts'
import type { Node } from './forest-node.ts'

/** What children say of an owner that is not shown may differ: the one of the least uid decides. */
export class PlaceholderNames {
  /** by placeholder */
  readonly #least = new Map<Node, Node>()

  /** A child has come, has changed, or has gone. @returns whether the placeholder may be named otherwise now */
  touch(child: Node, placeholder: Node): boolean {
    const least = this.#least.get(placeholder)
    if (child !== least && lesser(least, child) === least) return false
    if (child.parent === placeholder) this.#least.set(placeholder, child)
    return true
  }

  /** What it is; undefined: it has no children. */
  ownerOf(placeholder: Node): Owner | undefined {
    let least = this.#least.get(placeholder)
    if (least?.parent !== placeholder) {
      least = undefined
      for (const child of placeholder.children()) least = lesser(least, child)
      if (least) this.#least.set(placeholder, least)
    }
    return least?.record?.owner
  }

  delete(placeholder: Node): void {
    this.#least.delete(placeholder)
  }
}

function lesser(one: Node | undefined, other: Node): Node {
  return one && one.id < other.id ? one : other
}
