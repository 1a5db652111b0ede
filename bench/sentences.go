package main

import (
	"math/rand/v2"
	"strings"
)

// sentences generates sentences that an assistant might remember about its users.
// Each is a pattern whose names in braces are replaced by a word listed under that
// name, which may contain names again. No sentence occurs twice.
type sentences struct {
	rnd  *rand.Rand
	seen map[string]bool
}

// newSentences returns a deterministic generator.
func newSentences() *sentences {
	return &sentences{rand.New(rand.NewPCG(3, 5)), map[string]bool{}}
}

// next returns a sentence of a kind: "fact" or "question".
func (s *sentences) next(kind string) string {
	for {
		text := s.fill("{" + kind + "}")
		text = strings.ToUpper(text[:1]) + text[1:]
		if !s.seen[text] {
			s.seen[text] = true
			return text
		}
	}
}

// take returns the next n sentences.
func (s *sentences) take(kind string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = s.next(kind)
	}
	return texts
}

// fill replaces names with words.
func (s *sentences) fill(pattern string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(pattern, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		choices := words[name]
		b.WriteString(s.fill(choices[s.rnd.IntN(len(choices))]))
		pattern = after
	}
}

func list(text string) []string { return strings.Split(text, "|") }

// words maps the names in patterns to their replacements.
var words = map[string][]string{
	"fact": {
		"{who} prefers {drink} to {drink} {when}.",
		"{who} usually eats {dish} for {meal}{because}.",
		"{who} cannot eat {food} because of an allergy.",
		"for {meal} {who} cooked {dish} with {food} and {food}.",
		"the best {dish} in {city} is served in {place}, says {who}.",
		"{who} is flying to {city} {when} to {purpose}.",
		"{who} lived in {city} for {number} years before moving to {city}.",
		"the train from {city} to {city} was {number} hours late {when}.",
		"{who} wants to see {sight} in {city} {when}.",
		"{who} works as {job} in {city}.",
		"{who} was promoted to {job} after {number} years at {company}.",
		"{company} is looking for {job} who knows {skill}.",
		"the meeting about {project} was moved to {day} at {hour}.",
		"{who} has to finish {project} before {day}{because}.",
		"{company} will pay for {project} only if {who} agrees.",
		"{who} is learning {skill} with {helper}.",
		"{who} plays {game} with {who} every {day}.",
		"{who} ran {number} kilometres through {place} {when}.",
		"{who} broke {bodypart} while playing {game}.",
		"the doctor told {who} to rest {bodypart} for {number} weeks.",
		"{who} takes {medicine} against {illness} {when}.",
		"{who} has been suffering from {illness} since {month}.",
		"{who} bought {thing} for {number} hundred euros in {city}.",
		"{who} lost {thing} in {place} {when}.",
		"{who} gave {thing} to {who} as a birthday present in {month}.",
		"the {thing2} of {who} has stopped working{because}.",
		"{who} is reading a book about {topic} and finds it {opinion}.",
		"{who} gave a talk on {topic} in {city} {when}.",
		"the film about {topic} was {opinion}, in the opinion of {who}.",
		"{who} thinks that {topic} is {opinion}{because}.",
		"{who} has {pet} that is called {petname}.",
		"{petname}, {pet}, hides under the sofa when there is {weather}.",
		"there will be {weather} in {city} on {day}.",
		"{who} stayed at home {when} because of the {weather}.",
		"{who} planted {plant} in the garden in {month}.",
		"the {plant} of {who} died after the {weather} in {month}.",
		"{who} pays {number} hundred euros a month for {expense}.",
		"{who} saves money for {thing} and spends little on {expense}.",
		"{who} and {who} got married in {city} in {month}.",
		"{relative} of {who} is {job} and lives in {city}.",
		"{who} calls {relative} every {day} to talk about {topic}.",
		"{who} asked {company} for a refund of {thing}{because}.",
		"the password of {who} for {service} has to be changed before {day}.",
		"{who} cannot log in to {service}{because}.",
		"{who} likes to listen to {music} while working on {project}.",
		"{who} plays {instrument} in a band that makes {music}.",
	},
	"question": {
		"what does {who} like to drink {when}?",
		"which food should I not cook for {who}?",
		"where in {city} can one eat {dish}?",
		"why is {who} travelling to {city}?",
		"when does {who} leave for {city}?",
		"what is the profession of {who}?",
		"who could help with {skill} at {company}?",
		"when is the deadline of {project}?",
		"is there a meeting about {project} on {day}?",
		"which sport does {who} do on {day}?",
		"what happened to {bodypart} of {who}?",
		"which medication does {who} need for {illness}?",
		"what did {who} lose in {place}?",
		"what would be a good present for {who}?",
		"how much does {who} pay for {expense}?",
		"what does {who} think about {topic}?",
		"what is the name of the pet of {who}?",
		"how will the weather be in {city} on {day}?",
		"what grows in the garden of {who}?",
		"does {who} have trouble with {service}?",
		"which music does {who} enjoy?",
		"who is related to {who} and lives in {city}?",
	},
	"who":        list("Maria|Ahmed|Chen|Olga|Pedro|Fatima|John|Yuki|Priya|Lars|Amara|Sofia|Hassan|Ingrid|Mateo|Zanele|Dmitri|Leila|Tom|Hannah|my neighbour|my boss|the new colleague|our customer|the landlord|my daughter|my brother|a friend from school|Dr. Weber|Mrs. Okafor"),
	"drink":      list("green tea|black coffee|a cappuccino|orange juice|sparkling water|red wine|wheat beer|hot chocolate|mint tea|oat milk|lemonade|a smoothie|tap water|espresso|cider"),
	"dish":       list("lentil soup|mushroom risotto|fried rice|a cheese sandwich|pad thai|sushi|vegetable curry|roast chicken|pancakes|porridge with berries|lasagne|tacos|couscous|goulash|a Greek salad|dumplings|fish and chips|bean stew|ramen|pizza with olives"),
	"meal":       list("breakfast|lunch|dinner|supper|the picnic|the party"),
	"food":       list("peanuts|shellfish|gluten|milk|eggs|strawberries|garlic|tomatoes|soy|mushrooms|pork|cheese|walnuts|spinach|onions|salmon|ginger|honey"),
	"city":       list("Lisbon|Nairobi|Osaka|Toronto|Berlin|Mumbai|Lima|Oslo|Cairo|Melbourne|Chicago|Seoul|Warsaw|Marseille|Accra|Montevideo|Hanoi|Edinburgh|Istanbul|Vienna|Kyiv|Santiago|Dublin|Naples"),
	"place":      list("the old harbour|the railway station|the city park|a small village|the market hall|the university|the airport|the museum|the forest|a café near the church|the office|the hotel lobby|the swimming pool|the library"),
	"sight":      list("the cathedral|the castle|the botanical garden|the opera|the old town|the zoo|the mosque|the national gallery|the lighthouse|the bridge at night"),
	"purpose":    list("visit {relative}|attend a conference on {topic}|sign a contract with {company}|take part in a marathon|look for a flat|learn {skill}|see a specialist about {bodypart}|celebrate a wedding|give a concert"),
	"when":       list("in the morning|in the evening|on {day}|next week|last {month}|in {month}|at the weekend|during the holidays|tomorrow|two days ago|this year|after work|late at night|in winter|every summer"),
	"day":        list("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"),
	"hour":       list("eight|nine|ten|noon|two|half past three|four|six"),
	"month":      list("January|February|March|April|May|June|July|August|September|October|November|December"),
	"number":     list("two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty"),
	"job":        list("a nurse|a lawyer|a carpenter|a software engineer|a teacher of history|a bus driver|an accountant|a translator|a marine biologist|a chef|a journalist|a police officer|an architect|a farmer|a project manager|a dentist|a librarian|an electrician|a data analyst|a florist"),
	"company":    list("a shipping company|the bank|the insurance|a small bakery|the hospital|a start-up for solar panels|the ministry|an airline|a publishing house|the water works|a law firm|the furniture store|a game studio|the brewery|the telephone company"),
	"skill":      list("Spanish|welding|double-entry bookkeeping|Go programming|how to sail|first aid|calligraphy|Japanese|statistics|public speaking|how to repair bicycles|photography|tax law|knitting|database administration|sign language|chess openings|baking bread"),
	"project":    list("the annual report|the new website|the kitchen renovation|the migration to the cloud|the charity concert|the school play|the budget for next year|the bridge inspection|the customer survey|the novel|the merger|the warehouse move|the vaccine study|the garden fence|the tax return"),
	"because":    list("|||, because the doctor said so|, because it is cheaper|, since nobody else has time|, although it is not easy|, because the old one was too slow|, after a long discussion with {who}|, as there was {weather}|, despite {illness}"),
	"helper":     list("a private teacher|an online course|a friend|{relative}|a retired engineer|a video channel|an evening class|an old textbook"),
	"game":       list("football|tennis|chess|badminton|volleyball|table tennis|basketball|cricket|hockey|poker|handball|golf"),
	"bodypart":   list("the left knee|the right wrist|the back|the ankle|the shoulder|the eyes|an elbow|two ribs|the neck|a finger"),
	"medicine":   list("antibiotics|aspirin|insulin|vitamin D|a cough syrup|sleeping pills|iron tablets|eye drops|an inhaler|painkillers"),
	"illness":    list("migraine|hay fever|asthma|high blood pressure|insomnia|a cold|diabetes|back pain|stomach ache|the flu|a tooth infection|anxiety"),
	"thing":      list("a leather wallet|a second-hand bicycle|a silver ring|a winter coat|a camera|noise-cancelling headphones|a set of keys|a wooden table|an electric guitar|hiking boots|a suitcase|a fountain pen|a coffee machine|an umbrella|a laptop|a woollen scarf|a tent|a smartwatch|concert tickets|a dictionary"),
	"thing2":     list("washing machine|phone|heating|car|printer|dishwasher|doorbell|laptop|lawn mower|fridge|alarm clock|router|television|elevator"),
	"topic":      list("climate change|the French revolution|black holes|artificial intelligence|beekeeping|urban planning|the history of jazz|vaccination|the stock market|nuclear energy|medieval castles|ocean currents|raising children|minimalism|space travel|renewable energy|women in science|the housing crisis|ancient Rome|whales|typography|mountain climbing"),
	"opinion":    list("fascinating|rather boring|too long|overrated|convincing|frightening|hard to understand|surprisingly funny|the most important thing of all|better than expected|a waste of time|very moving"),
	"pet":        list("a black cat|an old dog|a talking parrot|a tortoise|two rabbits|a hamster|a goldfish|a young horse|a greyhound|a Siamese cat|a snake"),
	"petname":    list("Luna|Rex|Mochi|Bella|Caesar|Pepper|Biscuit|Shadow|Ginger|Oscar|Nala|Pip"),
	"weather":    list("heavy rain|a thunderstorm|thick fog|snow|a heat wave|strong wind|hail|frost|sunshine|a flood"),
	"plant":      list("tomato plants|roses|an apple tree|lavender|potatoes|sunflowers|a fig tree|basil|tulips|pumpkins|a cherry tree|bamboo"),
	"expense":    list("rent|electricity|child care|the gym|insurance|a parking space|streaming services|groceries|public transport|piano lessons|the mortgage|mobile data"),
	"relative":   list("the mother|the grandfather|a cousin|the younger sister|an uncle|the twin brother|the aunt|a nephew|the son-in-law"),
	"service":    list("the online bank|the mail server|the company network|the photo cloud|the tax portal|the library catalogue|the video platform|the booking system|the health portal"),
	"music":      list("baroque music|hip hop|jazz|heavy metal|folk songs|opera|electronic music|bossa nova|film scores|reggae|string quartets|country music"),
	"instrument": list("the cello|the drums|the trumpet|the accordion|the bass|the piano|the flute|the violin|the banjo"),
}
