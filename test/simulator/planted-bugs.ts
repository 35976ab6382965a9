/**
 * Mistakes that the invariants must find. The simulator's own parts make them: the code under test has no switch for
 * them.
 */
export const plantedBugs = {
  /** a known row is never fetched again, although updates were missed */
  'pull-dropped': 'SimulatedGossip.pull',
  /** a restarted replica takes itself for the earlier instance of its name */
  'instance-ignored': 'SimulatedGossip.instance',
  /** a replica that loses the connection to another one removes the agents from the other's row, in its name */
  'two-writers': 'SimulatedGossip.publish',
  /** a replica that gets a call for an agent that it does not hold passes it on */
  'holder-forwards': 'SimulatedReplica',
  /** calls that must not be repeated are delivered as if they were safe */
  'unsafe-replayed': 'SimulatedReplica',
} as const

export type PlantedBug = keyof typeof plantedBugs

export function isPlantedBug(name: string): name is PlantedBug {
  return Object.hasOwn(plantedBugs, name)
}
